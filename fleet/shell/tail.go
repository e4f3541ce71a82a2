package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// followPause is how often tail -f looks at a file that it has read to the end.
const followPause = 100 * time.Millisecond

// count is what head and tail are asked for.
type count struct {
	n         int64
	bytes     bool
	fromStart bool // tail +n: from the nth on
	allBut    bool // head -n -n: all but the last n
	follow    bool
	quiet     bool
	files     []string
}

// errMany stops reading when enough was seen.
var errMany = errors.New("enough")

// parseCount understands -n 5, -n5, -5, -c 10, +3 and -f.
func parseCount(args []string) (count, error) {
	k := count{n: 10}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			k.files = append(k.files, args...)
			return k, nil
		case len(arg) < 2 || arg[0] != '-':
			k.files = append(k.files, arg)
			continue
		case arg[1] >= '0' && arg[1] <= '9':
			arg = "-n" + arg[1:]
		}
		for i := 1; i < len(arg); i++ {
			switch arg[i] {
			case 'f', 'F':
				k.follow = true
			case 'q':
				k.quiet = true
			case 'n', 'c':
				value := arg[i+1:]
				if value == "" && len(args) > 0 {
					value, args = args[0], args[1:]
				}
				if err := k.set(value, arg[i] == 'c'); err != nil {
					return k, err
				}
				i = len(arg)
			default:
				return k, errors.New("unrecognized option: " + arg[i:i+1])
			}
		}
	}
	return k, nil
}

func (k *count) set(value string, bytes bool) error {
	number := strings.TrimLeft(value, "+-")
	n, err := parseSize(number)
	if err != nil || len(value)-len(number) > 1 {
		return errors.New("invalid number '" + value + "'")
	}
	k.n, k.bytes = n, bytes
	k.fromStart, k.allBut = strings.HasPrefix(value, "+"), strings.HasPrefix(value, "-")
	return nil
}

// parseSize reads a number with an optional k, M or G.
func parseSize(text string) (int64, error) {
	scale := int64(1)
	if text != "" {
		if i := strings.IndexByte("bkmg", text[len(text)-1]|0x20); i > 0 {
			scale = 1 << (10 * i)
			text = text[:len(text)-1]
		}
	}
	n, err := strconv.ParseInt(text, 10, 48)
	return n * scale, err
}

func head(_ context.Context, c *call) int {
	k, err := parseCount(c.args)
	if err != nil {
		c.errorf("%v", err)
		return c.usage()
	}
	first := true
	return c.inputs(k.files, func(name string, r io.Reader) error {
		c.title(k, name, &first)
		if k.allBut {
			return c.headAllBut(k, r)
		}
		if k.bytes {
			_, err := io.CopyN(c.stdout, r, k.n)
			if err == io.EOF {
				return nil
			}
			return err
		}
		left := k.n
		if left == 0 {
			return nil
		}
		err := c.eachLine(r, func(line string, last bool) error {
			if err := c.line(line, last); err != nil {
				return err
			}
			if left--; left == 0 {
				return errMany
			}
			return nil
		})
		if err == errMany {
			return nil
		}
		return err
	})
}

// title prints the name of a file where there are several.
func (c *call) title(k count, name string, first *bool) {
	if len(k.files) < 2 || k.quiet {
		return
	}
	if !*first {
		c.print("\n")
	}
	*first = false
	c.print("==> " + name + " <==\n")
}

// headAllBut prints what is not among the last lines or bytes, as soon as that is known.
func (c *call) headAllBut(k count, r io.Reader) error {
	kept := c.mem.Buffer()
	defer kept.Reset()
	return c.eachPiece(r, func(piece []byte) error {
		if _, err := kept.Write(piece); err != nil {
			return err
		}
		end := tailStart(kept.Bytes(), count{n: k.n, bytes: k.bytes})
		if end == 0 {
			return nil
		}
		_, err := c.stdout.Write(kept.Bytes()[:end])
		kept.Drop(end)
		return err
	})
}

// eachPiece calls f with everything that is read, a piece at a time.
func (c *call) eachPiece(r io.Reader, f func(piece []byte) error) error {
	var buf [4096]byte
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			if ferr := f(buf[:n]); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func tail(ctx context.Context, c *call) int {
	k, err := parseCount(c.args)
	if err != nil {
		c.errorf("%v", err)
		return c.usage()
	}
	first := true
	status := c.inputs(k.files, func(name string, r io.Reader) error {
		c.title(k, name, &first)
		if k.allBut {
			k.allBut = false
		}
		return c.tailOf(k, r)
	})
	if status != 0 || !k.follow || len(k.files) == 0 {
		return status
	}
	return c.followFiles(ctx, k.files)
}

// tailOf prints the end of what is read, and keeps no more than twice that.
func (c *call) tailOf(k count, r io.Reader) error {
	if k.fromStart {
		return c.tailFrom(k, r)
	}
	kept := c.mem.Buffer()
	defer kept.Reset()
	trim := 64 << 10
	err := c.eachPiece(r, func(piece []byte) error {
		if _, err := kept.Write(piece); err != nil {
			return err
		}
		if kept.Len() > trim {
			kept.Drop(tailStart(kept.Bytes(), k))
			trim = 2*kept.Len() + 64<<10
		}
		return nil
	})
	if err != nil {
		return err
	}
	data := kept.Bytes()
	_, err = c.stdout.Write(data[tailStart(data, k):])
	return err
}

// tailFrom prints from the nth line or byte on.
func (c *call) tailFrom(k count, r io.Reader) error {
	skip := max(k.n-1, 0)
	return c.eachPiece(r, func(piece []byte) error {
		for skip > 0 && len(piece) > 0 {
			at := int(min(skip, int64(len(piece))))
			if !k.bytes {
				if at = bytes.IndexByte(piece, '\n') + 1; at == 0 {
					return nil
				}
				skip--
			} else {
				skip -= int64(at)
			}
			piece = piece[at:]
		}
		if len(piece) == 0 {
			return nil
		}
		_, err := c.stdout.Write(piece)
		return err
	})
}

// tailStart is where the asked-for end of data begins.
func tailStart(data []byte, k count) int {
	switch {
	case k.bytes && k.fromStart:
		return int(min(max(k.n-1, 0), int64(len(data))))
	case k.bytes:
		return int(max(int64(len(data))-k.n, 0))
	case k.fromStart:
		at := 0
		for n := k.n; n > 1 && at < len(data); n-- {
			i := bytes.IndexByte(data[at:], '\n')
			if i < 0 {
				return len(data)
			}
			at += i + 1
		}
		return at
	}
	at := len(data)
	if at > 0 && data[at-1] == '\n' {
		at--
	}
	for n := k.n; n > 0; n-- {
		i := bytes.LastIndexByte(data[:at], '\n')
		if i < 0 {
			return 0
		}
		if at = i; n == 1 {
			return i + 1
		}
	}
	return len(data)
}

// followFiles prints what is added to files, until the process ends. A file that shrinks or
// is replaced is read from its start.
func (c *call) followFiles(ctx context.Context, names []string) int {
	sizes := make(map[string]int64, len(names))
	for _, name := range names {
		if info, err := c.fs().Stat(c.path(name)); err == nil {
			sizes[name] = info.Size()
		}
	}
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-tick.C:
		}
		for _, name := range names {
			c.follow(name, sizes)
		}
	}
}

func (c *call) follow(name string, sizes map[string]int64) {
	info, err := c.fs().Stat(c.path(name))
	if err != nil || info.Size() == sizes[name] {
		return
	}
	f, err := c.fs().Open(c.path(name))
	if err != nil {
		return
	}
	defer f.Close()
	from := sizes[name]
	if from > info.Size() {
		from = 0
	}
	sizes[name] = info.Size()
	if _, err := f.Seek(from, io.SeekStart); err == nil {
		_, _ = io.CopyN(c.stdout, f, info.Size()-from)
	}
}
