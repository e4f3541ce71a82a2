package shell

import (
	"context"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

func stat(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	status := 0
	for _, name := range c.args {
		info, err := c.fs().Lstat(c.path(name))
		if err != nil {
			status = c.fail("can't stat '%s': %s", name, lang.Reason(err))
			continue
		}
		if len(c.opts.value('c', "")) > maxShown {
			return c.fail("format too long")
		}
		if c.opts.has('c') {
			c.print(statFormat(c.opts.value('c', ""), name, info) + "\n")
			continue
		}
		c.printf("  File: %s\n  Size: %d\nAccess: (%04o/%s)  Uid: (    0/    root)   Gid: (    0/    root)\nModify: %s\n",
			name, info.Size(), info.Mode().Perm(), modeText(info.Mode()), info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return status
}

func statFormat(format, name string, info vfs.Info) string {
	kinds := map[string]string{"d": "directory", "l": "symbolic link", "f": "regular file", "c": "character special file"}
	return strings.NewReplacer(
		"%%", "%", "%n", name, "%s", strconv.FormatInt(info.Size(), 10), "%a", strconv.FormatUint(uint64(info.Mode().Perm()), 8),
		"%A", modeText(info.Mode()), "%F", kinds[typeLetter(info.Mode())], "%Y", strconv.FormatInt(info.ModTime().Unix(), 10),
		"%y", info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700"), "%U", "root", "%G", "root", "%u", "0", "%g", "0",
	).Replace(format)
}

func du(ctx context.Context, c *call) int {
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	status := 0
	for _, name := range names {
		if _, err := c.usageOf(ctx, name, c.path(name), true); err != nil {
			status = c.fail("%s: %s", name, lang.Reason(err))
		}
	}
	return status
}

// usageOf adds up the sizes below a name, printing directories on the way.
func (c *call) usageOf(ctx context.Context, name, full string, top bool) (int64, error) {
	if err := c.session.Spend(ctx, 1); err != nil {
		return 0, err
	}
	info, err := c.fs().Lstat(full)
	if err != nil {
		return 0, err
	}
	total := (info.Size() + 4095) / 4096 * 4096
	if info.IsDir() {
		list, done, err := c.readDir(full)
		if err != nil {
			return 0, err
		}
		defer done()
		for _, e := range list {
			n, err := c.usageOf(ctx, name+"/"+e.Name(), full+"/"+e.Name(), false)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	if top || !c.opts.has('s') && (info.IsDir() || c.opts.has('a')) {
		c.printf("%s\t%s\n", c.blocks(total), name)
	}
	return total, nil
}

// blocks shows bytes in the unit that -h, -k or -m asks for.
func (c *call) blocks(n int64) string {
	switch {
	case c.opts.has('h'):
		return human(n)
	case c.opts.has('m'):
		return strconv.FormatInt(n>>20, 10)
	}
	return strconv.FormatInt(n>>10, 10)
}

func df(_ context.Context, c *call) int {
	unit := "1K-blocks"
	if c.opts.has('h') {
		unit = "Size"
	}
	c.printf("%-20s %10s %10s %10s %4s %s\n", "Filesystem", unit, "Used", "Available", "Use%", "Mounted on")
	used, limit := c.fs().Usage()
	c.dfLine("overlay", "/", used, limit)
	for _, m := range c.fs().Mounts() {
		used, limit := m.Volume.Usage()
		c.dfLine("tmpfs", m.Path, used, limit)
	}
	return 0
}

func (c *call) dfLine(kind, at string, used, limit int64) {
	if limit == 0 {
		limit = 64 << 30
	}
	c.printf("%-20s %10s %10s %10s %3d%% %s\n", kind, c.blocks(limit), c.blocks(used), c.blocks(limit-used), used*100/limit, at)
}
