package shell

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// archiveCommands pack files. `kubectl cp` is tar at both ends.
func archiveCommands() []command {
	return []command{{"tar", "=", "{c|x|t}[zvmpo] [-f FILE] [-C DIR] [FILE]...", tarCommand}}
}

// tarCommand reads the old spelling without a dash too, and the long options of kubectl cp, which
// change nothing for the one user there is.
func tarCommand(ctx context.Context, c *call) int {
	args := slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return strings.HasPrefix(a, "--no-same-") })
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args[0] = "-" + args[0]
	}
	opts, names, err := parseFlags("cxtzvmpof:C:", args)
	if err != nil {
		c.errorf("%v", err)
		return c.usage()
	}
	c.opts, c.args = opts, names
	at := c.path(opts.value('C', "."))
	switch {
	case opts.has('c') && len(names) > 0:
		return c.pack(ctx, at)
	case opts.has('x') || opts.has('t'):
		return c.unpack(ctx, at)
	}
	return c.usage()
}

// gzipCost is what compressing takes.
const gzipCost = 1200 << 10

// pack writes the named files, and all that is in directories, to the archive.
func (c *call) pack(ctx context.Context, at string) int {
	to := io.WriteCloser(nopCloser{c.stdout})
	if name := c.opts.value('f', "-"); name != "-" {
		f, err := c.create(name, vfs.Truncate)
		if err != nil {
			return c.fail("can't open '%s': %s", name, lang.Reason(err))
		}
		to = f
	}
	defer to.Close()
	squeezed := to
	if c.opts.has('z') {
		if c.mem.Take(gzipCost) != nil {
			return 1
		}
		squeezed = gzip.NewWriter(to)
	}
	out := tar.NewWriter(squeezed)
	status := 0
	for _, name := range c.args {
		if err := c.packOne(ctx, out, lang.Abs(at, name), strings.TrimLeft(path.Clean(name), "/")); err != nil {
			status = c.broken(name, err)
		}
	}
	if err := errors.Join(out.Close(), closeIf(c.opts.has('z'), squeezed)); err != nil && status == 0 {
		return c.broken("write", err)
	}
	return status
}

func closeIf(yes bool, w io.Closer) error {
	if !yes {
		return nil
	}
	return w.Close()
}

// packOne writes one file under a name. What is neither file, directory nor link is left out.
func (c *call) packOne(ctx context.Context, out *tar.Writer, full, name string) error {
	info, err := c.fs().Lstat(full)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Uname: "root", Gname: "root"}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		h.Linkname, err = c.fs().Readlink(full)
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	default:
		return nil
	}
	if err == nil && name != "" {
		err = out.WriteHeader(h)
	}
	if err != nil {
		return err
	}
	c.verbose(h.Name)
	if info.Mode().IsRegular() {
		return c.packContent(out, full, h.Size)
	}
	if !info.IsDir() {
		return nil
	}
	kids, done, err := c.readDir(full)
	if err != nil {
		return err
	}
	defer done()
	for _, kid := range kids {
		err = errors.Join(err, c.packOne(ctx, out, path.Join(full, kid.Name()), path.Join(name, kid.Name())))
	}
	return err
}

// packContent writes as many bytes of a file as its header says.
func (c *call) packContent(out *tar.Writer, full string, size int64) error {
	f, err := c.fs().Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.opts.has('z') {
		if err := c.work(8 * size); err != nil {
			return err
		}
	}
	_, err = io.CopyN(out, c.pays(f), size)
	return err
}

// verbose names a file for -v, beside an archive that may be on standard output.
func (c *call) verbose(name string) {
	if c.opts.has('v') && !c.opts.has('t') {
		c.printErr(name + "\n")
	}
}

// unpack reads the archive and lists it or makes its files under at.
func (c *call) unpack(ctx context.Context, at string) int {
	name := c.opts.value('f', "-")
	from, err := c.open(name)
	if err != nil {
		return c.fail("can't open '%s': %s", name, lang.Reason(err))
	}
	defer from.Close()
	in := io.Reader(from)
	if c.opts.has('z') {
		if c.mem.Take(gzipCost) != nil {
			return 1
		}
		if in, err = gzip.NewReader(from); err != nil {
			return c.fail("invalid magic")
		}
	}
	for archive := tar.NewReader(in); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return 0
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = c.unpackOne(archive, h, at)
		}
		if err != nil {
			return c.broken(name, err)
		}
	}
}

// unpackOne makes one file; a name never leads out of the directory.
func (c *call) unpackOne(archive io.Reader, h *tar.Header, at string) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	full := path.Join(at, name)
	switch {
	case len(c.args) > 0 && !chosen(c.args, name):
		return nil
	case c.opts.has('t'):
		c.print(h.Name + "\n")
		return nil
	}
	c.verbose(h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		return c.fs().MkdirAll(full, fs.FileMode(h.Mode).Perm())
	case tar.TypeSymlink:
		_ = c.fs().Remove(full) // an older one; what stays in the way is reported by Symlink
		return c.fs().Symlink(h.Linkname, full)
	case tar.TypeReg:
		return c.unpackFile(archive, full, fs.FileMode(h.Mode).Perm())
	}
	return nil
}

func (c *call) unpackFile(archive io.Reader, full string, mode fs.FileMode) error {
	if err := c.fs().MkdirAll(path.Dir(full), 0o755); err != nil {
		return err
	}
	f, err := c.fs().OpenFile(full, vfs.WriteOnly|vfs.Create|vfs.Truncate, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(c.pays(f), archive); err != nil {
		return err
	}
	if mode == 0 {
		mode = 0o644
	}
	return c.fs().Chmod(full, mode)
}

// chosen says whether the name is one of those asked for, or lies in one.
func chosen(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		n = strings.Trim(path.Clean(n), "/")
		return name == n || strings.HasPrefix(name, n+"/")
	})
}
