package shell

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/vfs"
)

func chmod(ctx context.Context, c *call) int {
	if len(c.args) < 2 {
		return c.usage()
	}
	return c.each(c.args[1:], "can't change mode of", func(name string) error {
		return c.walk(ctx, name, c.opts.has('R'), func(name string, info vfs.Info) error {
			mode, err := parseMode(c.args[0], info.Mode())
			if err != nil {
				return err
			}
			return c.fs().Chmod(name, mode)
		})
	})
}

// walk calls f for name and, if deep, for everything below it, directories first.
func (c *call) walk(ctx context.Context, name string, deep bool, f func(string, vfs.Info) error) error {
	if err := c.session.Spend(ctx, 1); err != nil {
		return err
	}
	info, err := c.fs().Lstat(name)
	if err != nil {
		return err
	}
	if err := f(name, info); err != nil {
		return err
	}
	if !deep || !info.IsDir() {
		return nil
	}
	list, done, err := c.readDir(name)
	if err != nil {
		return err
	}
	defer done()
	for _, e := range list {
		if err := c.walk(ctx, strings.TrimSuffix(name, "/")+"/"+e.Name(), true, f); err != nil {
			return err
		}
	}
	return nil
}

// parseMode reads an octal mode or clauses such as u+x,go-w, which change mode.
func parseMode(text string, mode fs.FileMode) (fs.FileMode, error) {
	if n, err := strconv.ParseUint(text, 8, 16); err == nil && n <= 0o7777 {
		return fs.FileMode(n).Perm(), nil
	}
	mode = mode.Perm()
	for clause := range strings.SplitSeq(text, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return 0, fmt.Errorf("invalid mode '%s'", text)
		}
		who, bits := modeWho(clause[:at]), modeBits(clause[at+1:], mode)
		switch clause[at] {
		case '+':
			mode |= bits & who
		case '-':
			mode &^= bits & who
		case '=':
			mode = mode&^who | bits&who
		}
	}
	return mode, nil
}

func modeWho(who string) fs.FileMode {
	mask := fs.FileMode(0)
	for _, w := range who {
		mask |= map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[w]
	}
	if who == "" {
		return 0o777
	}
	return mask
}

func modeBits(perm string, mode fs.FileMode) fs.FileMode {
	bits := fs.FileMode(0)
	for _, p := range perm {
		switch p {
		case 'r':
			bits |= 0o444
		case 'w':
			bits |= 0o222
		case 'x':
			bits |= 0o111
		case 'X':
			if mode&0o111 != 0 {
				bits |= 0o111
			}
		}
	}
	return bits
}

// chown only checks that the files exist: there are no owners.
func chown(_ context.Context, c *call) int {
	if len(c.args) < 2 {
		return c.usage()
	}
	return c.each(c.args[1:], "can't change owner of", func(name string) error {
		_, err := c.fs().Stat(name)
		return err
	})
}
