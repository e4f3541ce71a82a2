package shell

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/pattern"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/internal/regex"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// finder is a parsed find command.
type finder struct {
	roots    []string
	tests    []func(name string, info vfs.Info) bool
	maxDepth int
	minDepth int
	end      string // after each name
	remove   bool
}

func find(ctx context.Context, c *call) int {
	f := finder{maxDepth: 1 << 20, end: "\n"}
	args := c.args
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "!" {
		f.roots, args = append(f.roots, args[0]), args[1:]
	}
	if len(f.roots) == 0 {
		f.roots = []string{"."}
	}
	if err := f.parse(args, c.mem); err != nil {
		return c.fail("%v", err)
	}
	status := 0
	for _, root := range f.roots {
		if err := c.findIn(ctx, &f, root); err != nil {
			status = c.fail("%s: %s", root, lang.Reason(err))
		}
	}
	return status
}

func (f *finder) parse(args []string, mem *budget.Scope) error {
	negate := false
	for len(args) > 0 {
		op := args[0]
		args = args[1:]
		value := ""
		switch op {
		case "!", "-not":
			negate = !negate
			continue
		case "-print", "-a", "-and":
			continue
		case "-print0":
			f.end = "\x00"
			continue
		case "-delete":
			f.remove = true
			continue
		}
		if len(args) > 0 {
			value = args[0]
			args = args[1:]
		}
		test, err := f.test(op, value, mem)
		if err != nil {
			return err
		}
		if test == nil {
			continue
		}
		not := negate
		negate = false
		f.tests = append(f.tests, func(name string, info vfs.Info) bool { return test(name, info) != not })
	}
	return nil
}

// test is one condition; nil for options that are none.
func (f *finder) test(op, value string, mem *budget.Scope) (func(string, vfs.Info) bool, error) {
	switch op {
	case "-name", "-iname", "-path":
		match, err := matcher(value, op == "-iname", mem)
		return func(name string, _ vfs.Info) bool {
			if op == "-path" {
				return match(name)
			}
			return match(path.Base(name))
		}, err
	case "-type":
		return func(_ string, info vfs.Info) bool { return typeLetter(info.Mode()) == value }, nil
	case "-empty":
		return nil, fmt.Errorf("unrecognized: %s", op)
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(value)
		if op == "-maxdepth" {
			f.maxDepth = n
		} else {
			f.minDepth = n
		}
		return nil, err
	}
	return nil, fmt.Errorf("unrecognized: %s", op)
}

// matcher compiles a shell pattern for whole strings.
func matcher(pat string, fold bool, mem *budget.Scope) (func(string) bool, error) {
	mode := pattern.EntireString
	if fold {
		mode |= pattern.NoGlobCase
	}
	expr, err := pattern.Regexp(pat, mode)
	if err != nil {
		return nil, err
	}
	re, err := regex.Compile(expr, mem)
	if err != nil {
		return nil, err
	}
	return func(name string) bool {
		ok, err := re.Match(name)
		return ok && err == nil
	}, nil
}

func typeLetter(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "d"
	case mode&fs.ModeSymlink != 0:
		return "l"
	case mode.IsRegular():
		return "f"
	}
	return "c"
}

func (c *call) findIn(ctx context.Context, f *finder, root string) error {
	base := c.path(root)
	var found []string
	err := c.walk(ctx, base, f.maxDepth > 0, func(full string, info vfs.Info) error {
		rel := strings.TrimPrefix(full, base)
		depth := strings.Count(strings.Trim(rel, "/"), "/") + 1
		if strings.Trim(rel, "/") == "" {
			depth = 0
		}
		if depth > f.maxDepth || depth < f.minDepth {
			return nil
		}
		if err := c.work(int64(len(f.tests)) * int64(64+8*len(rel))); err != nil {
			return err
		}
		name := root + rel
		for _, test := range f.tests {
			if !test(name, info) {
				return nil
			}
		}
		if f.remove {
			found = append(found, full)
			return c.mem.Take(budget.Size(len(full)))
		}
		c.print(name + f.end)
		return nil
	})
	for _, full := range slices.Backward(found) {
		if rerr := c.fs().Remove(full); rerr != nil && err == nil {
			err = rerr
		}
	}
	return err
}
