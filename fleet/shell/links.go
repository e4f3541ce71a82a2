package shell

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

func ln(_ context.Context, c *call) int {
	if len(c.args) == 0 || len(c.args) > 2 {
		return c.usage()
	}
	if !c.opts.has('s') {
		return c.fail("hard links are not supported, use -s")
	}
	target, link := c.args[0], path.Base(c.args[0])
	if len(c.args) == 2 {
		link = c.args[1]
		if !c.opts.has('n') {
			link = c.target(target, link)
		}
	}
	if c.opts.has('f') {
		_ = c.fs().Remove(c.path(link))
	}
	if err := c.fs().Symlink(target, c.path(link)); err != nil {
		return c.fail("%s: %s", link, lang.Reason(err))
	}
	return 0
}

func mktemp(_ context.Context, c *call) int {
	template := "tmp.XXXXXX"
	if len(c.args) > 0 {
		template = c.args[0]
	}
	stem := strings.TrimRight(template, "X")
	if len(template)-len(stem) < 3 {
		return c.fail("too few X's in template '%s'", template)
	}
	if len(c.args) == 0 || c.opts.has('p') || c.opts.has('t') {
		stem = c.opts.value('p', "/tmp") + "/" + stem
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range 100 {
		name := stem
		for range len(template) - len(strings.TrimRight(template, "X")) {
			name += string(letters[rand.IntN(len(letters))])
		}
		err := c.makeTemp(name)
		if err == nil {
			c.print(name + "\n")
			return 0
		}
		if !errors.Is(err, fs.ErrExist) {
			return c.fail("%s: %s", name, lang.Reason(err))
		}
	}
	return c.fail("no free name for '%s'", template)
}

func (c *call) makeTemp(name string) error {
	if c.opts.has('d') {
		return c.fs().Mkdir(c.path(name), 0o700)
	}
	f, err := c.fs().OpenFile(c.path(name), vfs.WriteOnly|vfs.Create|vfs.Exclusive, 0o600)
	if err == nil {
		f.Close()
	}
	return err
}

func readlink(_ context.Context, c *call) int {
	if len(c.args) != 1 {
		return c.usage()
	}
	read := c.fs().Readlink
	if c.opts.has('f') {
		read = c.fs().RealPath
	}
	target, err := read(c.path(c.args[0]))
	if err != nil {
		return 1
	}
	c.print(target + "\n")
	return 0
}

func realpath(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	status := 0
	for _, name := range c.args {
		real, err := c.fs().RealPath(c.path(name))
		if err != nil {
			status = c.fail("%s: %s", name, lang.Reason(err))
			continue
		}
		c.print(real + "\n")
	}
	return status
}
