package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// fileCommands make, move and remove files.
func fileCommands() []command {
	return []command{
		{"chgrp", "R", "[-R] GROUP FILE...", chown},
		{"chmod", "R", "[-R] MODE FILE...", chmod},
		{"chown", "R", "[-R] OWNER FILE...", chown},
		{"cp", "afprR", "[-afprR] SOURCE... DEST", cp},
		{"ln", "sfn", "-s [-fn] TARGET LINK", ln},
		{"mkdir", "pm:", "[-p] [-m MODE] DIRECTORY...", mkdir},
		{"mktemp", "dp:t", "[-d] [-p DIR] [TEMPLATE]", mktemp},
		{"mv", "fn", "[-fn] SOURCE... DEST", mv},
		{"readlink", "f", "[-f] FILE", readlink},
		{"realpath", "", "FILE...", realpath},
		{"rm", "rRf", "[-rRf] FILE...", rm},
		{"rmdir", "p", "[-p] DIRECTORY...", rmdir},
		{"sync", "", "", func(context.Context, *call) int { return 0 }},
		{"touch", "cd:", "[-c] [-d DATE] FILE...", touch},
	}
}

// target is where a source goes: dest itself, or a file of the source's name in it.
func (c *call) target(source, dest string) string {
	if info, err := c.fs().Stat(c.path(dest)); err == nil && info.IsDir() {
		return dest + "/" + path.Base(path.Clean(source))
	}
	return dest
}

// severalInto checks the arguments of commands that take sources and a destination.
func (c *call) severalInto() (sources []string, dest string, ok bool) {
	if len(c.args) < 2 {
		c.usage()
		return nil, "", false
	}
	sources, dest = c.args[:len(c.args)-1], c.args[len(c.args)-1]
	info, err := c.fs().Stat(c.path(dest))
	if len(sources) > 1 && (err != nil || !info.IsDir()) {
		c.errorf("target '%s': Not a directory", dest)
		return nil, "", false
	}
	return sources, dest, true
}

func cp(ctx context.Context, c *call) int {
	sources, dest, ok := c.severalInto()
	if !ok {
		return 1
	}
	recursive := c.opts.has('r') || c.opts.has('R') || c.opts.has('a')
	status := 0
	for _, src := range sources {
		info, err := c.fs().Stat(c.path(src))
		if err == nil && info.IsDir() && !recursive {
			status = c.fail("omitting directory '%s'", src)
			continue
		}
		if err == nil {
			err = c.copyTree(ctx, c.path(src), c.path(c.target(src, dest)))
		}
		if err != nil {
			status = c.fail("can't copy '%s': %s", src, lang.Reason(err))
		}
	}
	return status
}

// copyTree copies a file or directory; links are copied as links below the top.
func (c *call) copyTree(ctx context.Context, from, to string) error {
	if err := c.session.Spend(ctx, 1); err != nil {
		return err
	}
	info, err := c.fs().Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.copyFile(from, to, info.Mode())
	}
	if to == from || strings.HasPrefix(to, from+"/") {
		return errors.New("cannot copy a directory into itself")
	}
	if err := c.fs().MkdirAll(to, info.Mode()); err != nil {
		return err
	}
	list, done, err := c.readDir(from)
	if err != nil {
		return err
	}
	defer done()
	for _, e := range list {
		if e.Type()&fs.ModeSymlink != 0 {
			err = c.copyLink(from+"/"+e.Name(), to+"/"+e.Name())
		} else {
			err = c.copyTree(ctx, from+"/"+e.Name(), to+"/"+e.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) copyLink(from, to string) error {
	target, err := c.fs().Readlink(from)
	if err != nil {
		return err
	}
	return c.fs().Symlink(target, to)
}

func (c *call) copyFile(from, to string, mode fs.FileMode) error {
	in, err := c.fs().Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.fs().OpenFile(to, vfs.WriteOnly|vfs.Create|vfs.Truncate, mode)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(c.pays(out), c.pays(in))
	return err
}

func mv(ctx context.Context, c *call) int {
	sources, dest, ok := c.severalInto()
	if !ok {
		return 1
	}
	status := 0
	for _, src := range sources {
		to := c.target(src, dest)
		if _, err := c.fs().Lstat(c.path(to)); err == nil && c.opts.has('n') {
			continue
		}
		if err := c.move(ctx, c.path(src), c.path(to)); err != nil {
			status = c.fail("can't rename '%s': %s", src, lang.Reason(err))
		}
	}
	return status
}

// move renames, or copies and removes between volumes.
func (c *call) move(ctx context.Context, from, to string) error {
	err := c.fs().Rename(from, to)
	if !errors.Is(err, vfs.EXDEV) {
		return err
	}
	if err := c.copyTree(ctx, from, to); err != nil {
		return err
	}
	return c.fs().RemoveAll(from)
}

func rm(_ context.Context, c *call) int {
	force := c.opts.has('f')
	if len(c.args) == 0 && !force {
		return c.usage()
	}
	status := 0
	for _, name := range c.args {
		info, err := c.fs().Lstat(c.path(name))
		switch {
		case err != nil && force && errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.IsDir() && !c.opts.has('r') && !c.opts.has('R'):
			err = vfs.EISDIR
		case err == nil:
			err = c.fs().RemoveAll(c.path(name))
		}
		if err != nil {
			status = c.fail("can't remove '%s': %s", name, lang.Reason(err))
		}
	}
	return status
}

func mkdir(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	mode, err := parseMode(c.opts.value('m', "755"), 0o755)
	if err != nil {
		return c.fail("%v", err)
	}
	make := c.fs().Mkdir
	if c.opts.has('p') {
		make = c.fs().MkdirAll
	}
	return c.each(c.args, "can't create directory", func(name string) error { return make(name, mode) })
}

// each does f to the absolute path of every name and reports those that fail.
func (c *call) each(names []string, failing string, f func(name string) error) int {
	status := 0
	for _, name := range names {
		if err := f(c.path(name)); err != nil {
			status = c.fail("%s '%s': %s", failing, name, lang.Reason(err))
		}
	}
	return status
}

func rmdir(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	return c.each(c.args, "can't remove", func(name string) error {
		if info, err := c.fs().Lstat(name); err == nil && !info.IsDir() {
			return vfs.ENOTDIR
		}
		return c.fs().Remove(name)
	})
}

func touch(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	when := time.Now()
	if c.opts.has('d') {
		var err error
		if when, err = parseDate(c.opts.value('d', "")); err != nil {
			return c.fail("%v", err)
		}
	}
	return c.each(c.args, "can't touch", func(name string) error {
		_, err := c.fs().Stat(name)
		if err != nil {
			if c.opts.has('c') {
				return nil
			}
			f, err := c.fs().OpenFile(name, vfs.WriteOnly|vfs.Create, 0o644)
			if err != nil {
				return err
			}
			f.Close()
		}
		return c.fs().Chtimes(name, when)
	})
}
