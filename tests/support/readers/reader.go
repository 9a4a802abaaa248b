// Reads the messages whose paths stand on its standard input, each with Go's standard library
// alone, and tells what it sees of each in one line of JSON.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"os"
	"strings"
)

type part struct {
	Type    string  `json:"type"`
	Charset string  `json:"charset"`
	IsFile  bool    `json:"is_file"`
	Name    *string `json:"name"`
	ID      string  `json:"content_id"`
	Data    []byte  `json:"data"`
}

type told struct {
	Failed string                 `json:"failed,omitempty"`
	Fields map[string]string      `json:"fields"`
	People map[string][][2]string `json:"people"`
	Parts  []part                 `json:"parts"`
}

var words = new(mime.WordDecoder)

func main() {
	out := json.NewEncoder(os.Stdout)
	paths := bufio.NewScanner(os.Stdin)
	for paths.Scan() {
		seen := told{Fields: map[string]string{}, People: map[string][][2]string{}, Parts: []part{}}
		if err := seen.read(paths.Text()); err != nil {
			seen.Failed = err.Error()
		}
		if err := out.Encode(seen); err != nil {
			panic(err)
		}
	}
}

func (t *told) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for name, values := range message.Header {
		if t.Fields[name], err = words.DecodeHeader(values[0]); err != nil {
			return err
		}
	}
	for _, name := range []string{"From", "To", "Cc", "Reply-To"} {
		if message.Header.Get(name) == "" {
			continue
		}
		people, err := message.Header.AddressList(name)
		if err != nil {
			return err
		}
		for _, person := range people {
			written := (&mail.Address{Address: person.Address}).String() // with its quotes
			address := written[1 : len(written)-1]
			t.People[name] = append(t.People[name], [2]string{person.Name, address})
		}
	}
	return t.walk(textproto.MIMEHeader(message.Header), message.Body)
}

func (t *told) walk(header textproto.MIMEHeader, body io.Reader) error {
	kind, parameters, err := "text/plain", map[string]string{}, error(nil)
	if given := header.Get("Content-Type"); given != "" {
		if kind, parameters, err = mime.ParseMediaType(given); err != nil {
			return err
		}
	}
	if strings.HasPrefix(kind, "multipart/") {
		return t.parts(multipart.NewReader(body, parameters["boundary"]))
	}
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	leaf := part{Type: kind, Charset: parameters["charset"], Data: data}
	leaf.ID = header.Get("Content-Id")
	disposition, more, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil && header.Get("Content-Disposition") != "" {
		return err
	}
	if name, ok := more["filename"]; ok {
		leaf.Name = &name
	}
	isShown := strings.HasPrefix(kind, "text/") && disposition != "attachment"
	leaf.IsFile = !isShown || leaf.Name != nil || leaf.ID != ""
	t.Parts = append(t.Parts, leaf)
	return nil
}

func (t *told) parts(reader *multipart.Reader) error {
	for {
		next, err := reader.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.walk(next.Header, next); err != nil {
			return err
		}
	}
}
