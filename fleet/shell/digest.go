package shell

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
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
	width, err := strconv.Atoi(c.opts.value('w', "76"))
	if err != nil || width < 0 {
		return c.fail("invalid number '%s'", c.opts.value('w', ""))
	}
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		out := bufio.NewWriter(c.stdout)
		if c.opts.has('d') {
			_, err := io.Copy(out, base64.NewDecoder(base64.StdEncoding, spaceless{r}))
			return errors.Join(err, out.Flush())
		}
		lines := &wrapper{to: out, width: width}
		encoder := base64.NewEncoder(base64.StdEncoding, lines)
		_, err := io.Copy(encoder, r)
		return errors.Join(err, encoder.Close(), lines.end(), out.Flush())
	})
}

// spaceless reads without the white space.
type spaceless struct{ from io.Reader }

func (s spaceless) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	kept := bytes.Map(dropSpace, b[:n])
	return copy(b, kept), err
}

// wrapper breaks what is written into lines of width columns; 0 leaves it in one piece.
type wrapper struct {
	to     *bufio.Writer
	width  int
	column int
}

func (w *wrapper) Write(b []byte) (int, error) {
	for _, c := range b {
		if w.width > 0 && w.column == w.width {
			_ = w.to.WriteByte('\n')
			w.column = 0
		}
		if err := w.to.WriteByte(c); err != nil {
			return 0, err
		}
		w.column++
	}
	return len(b), nil
}

func (w *wrapper) end() error {
	if w.width == 0 || w.column == 0 {
		return nil
	}
	return w.to.WriteByte('\n')
}

func dropSpace(r rune) rune {
	if r == '\n' || r == '\r' || r == ' ' {
		return -1
	}
	return r
}
