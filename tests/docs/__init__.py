"""Every block of code in the README and in docs/ runs, word by word, in a fresh directory."""
