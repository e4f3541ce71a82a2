package shell

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// textCommands show files and parts of them.
func textCommands() []command {
	return []command{
		{"cat", "nuAv", "[-n] [FILE]...", cat},
		{"head", "=", "[-n LINES] [-c BYTES] [FILE]...", head},
		{"rev", "", "[FILE]...", rev},
		{"tac", "", "[FILE]...", tac},
		{"tail", "=", "[-n [+]LINES] [-c [+]BYTES] [-f] [FILE]...", tail},
		{"tee", "ai", "[-a] [FILE]...", tee},
		{"wc", "clmw", "[-clmw] [FILE]...", wc},
	}
}

func cat(_ context.Context, c *call) int {
	n := 0
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		if !c.opts.has('n') {
			_, err := io.Copy(c.stdout, r)
			return err
		}
		return c.eachLine(r, func(line string, last bool) error {
			n++
			return c.line(leftPad(strconv.Itoa(n), 6)+"\t"+line, last)
		})
	})
}

// line writes a line, with a newline unless it is a last one that had none.
func (c *call) line(text string, last bool) error {
	if !last {
		text += "\n"
	}
	_, err := io.WriteString(c.stdout, text)
	return err
}

func leftPad(text string, width int) string {
	return strings.Repeat(" ", max(width-len(text), 0)) + text
}

func tee(_ context.Context, c *call) int {
	flag := vfs.Truncate
	if c.opts.has('a') {
		flag = vfs.Append
	}
	if c.mem.Take(int64(len(c.args))*entryCost) != nil {
		return 1
	}
	status := 0
	outs := []io.Writer{c.stdout}
	for _, name := range c.args {
		f, err := c.create(name, flag)
		if err != nil {
			status = c.fail("%s: %s", name, lang.Reason(err))
			continue
		}
		defer f.Close()
		outs = append(outs, f)
	}
	if _, err := io.Copy(io.MultiWriter(outs...), c.stdin); err != nil {
		return c.broken("write", err)
	}
	return status
}

// tally is what wc counts.
type tally struct{ lines, words, bytes, chars int }

// tallyOf reads everything and keeps nothing.
func tallyOf(r io.Reader) (t tally, err error) {
	in := bufio.NewReader(r)
	word := false
	for {
		ch, size, err := in.ReadRune()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t.bytes += size
		t.chars++
		if ch == '\n' {
			t.lines++
		}
		if space := unicode.IsSpace(ch); space || !word {
			word = !space
			if word {
				t.words++
			}
		}
	}
}

func wc(_ context.Context, c *call) int {
	show := func(t tally, name string) {
		var parts []string
		all := len(c.opts) == 0
		for _, f := range []struct {
			on bool
			n  int
		}{{c.opts.has('l') || all, t.lines}, {c.opts.has('w') || all, t.words}, {c.opts.has('m'), t.chars}, {c.opts.has('c') || all, t.bytes}} {
			if f.on {
				parts = append(parts, strconv.Itoa(f.n))
			}
		}
		if len(parts) > 1 {
			for i := range parts {
				parts[i] = leftPad(parts[i], 7)
			}
		}
		if name != "-" {
			parts = append(parts, name)
		}
		c.print(strings.Join(parts, " ") + "\n")
	}
	var total tally
	status := c.inputs(c.args, func(name string, r io.Reader) error {
		t, err := tallyOf(r)
		if err != nil {
			return err
		}
		total = tally{total.lines + t.lines, total.words + t.words, total.bytes + t.bytes, total.chars + t.chars}
		show(t, name)
		return nil
	})
	if len(c.args) > 1 {
		show(total, "total")
	}
	return status
}

func tac(_ context.Context, c *call) int {
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		data, err := c.readAll(r)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.stdout)
		for err == nil && len(data) > 0 {
			at := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
			_, err = out.Write(data[at:])
			data = data[:at]
		}
		if err == nil {
			err = out.Flush()
		}
		return err
	})
}

func rev(_ context.Context, c *call) int {
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		return c.eachLine(r, func(line string, last bool) error {
			runes := []rune(line)
			for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
				runes[i], runes[j] = runes[j], runes[i]
			}
			return c.line(string(runes), last)
		})
	})
}
