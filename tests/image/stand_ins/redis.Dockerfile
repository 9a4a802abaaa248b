# Stands in for redis: Debian's, which unlike the original refuses strangers unless it is told.
FROM outbox-debian
USER redis
WORKDIR /tmp
ENTRYPOINT ["sh", "-c", "exec \"$@\" --protected-mode no", "sh"]
CMD ["redis-server"]
