package shell

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"
	"strings"
)

// digestCommands encode and sum up.
func digestCommands() []command {
	return []command{
		{"base64", "dw:", "[-d] [-w COLUMNS] [FILE]", base64Command},
		{"md5sum", "", "[FILE]...", sum(md5.New)},
		{"sha1sum", "", "[FILE]...", sum(sha1.New)},
		{"sha256sum", "", "[FILE]...", sum(sha256.New)},
		{"sha512sum", "", "[FILE]...", sum(sha512.New)},
	}
}

func sum(make func() hash.Hash) func(context.Context, *call) int {
	return func(_ context.Context, c *call) int {
		return c.inputs(c.args, func(name string, r io.Reader) error {
			h := make()
			if _, err := io.Copy(h, r); err != nil {
				return err
			}
			c.print(hex.EncodeToString(h.Sum(nil)) + "  " + name + "\n")
			return nil
		})
	}
}

func base64Command(_ context.Context, c *call) int {
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		data, err := readAll(r)
		if err != nil {
			return err
		}
		if c.opts.has('d') {
			out, err := base64.StdEncoding.DecodeString(string(bytes.Map(dropSpace, data)))
			if err != nil {
				return err
			}
			_, err = c.stdout.Write(out)
			return err
		}
		c.print(wrapped(base64.StdEncoding.EncodeToString(data), c.opts.value('w', "76")))
		return nil
	})
}

func dropSpace(r rune) rune {
	if r == '\n' || r == '\r' || r == ' ' {
		return -1
	}
	return r
}

// wrapped breaks text into lines of width columns; "0" leaves it in one piece.
func wrapped(text, width string) string {
	n := 0
	for _, d := range width {
		n = n*10 + int(d-'0')
	}
	if n <= 0 || n > maxLine {
		return text
	}
	var b strings.Builder
	for len(text) > n {
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	if text != "" {
		b.WriteString(text + "\n")
	}
	return b.String()
}
