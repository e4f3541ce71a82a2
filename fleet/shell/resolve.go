package shell

import (
	"bytes"
	"path"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// defaultPath is where commands are looked for in an environment without PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// resolved is what a command name leads to: one of command, program, script and interpreter.
type resolved struct {
	path        string
	command     command
	program     Program
	script      string   // a shell script
	interpreter []string // of a script for something else
	reason      string   // why it cannot be run
}

// resolver finds commands. It is given the table of built-in ones, which themselves find and
// run commands and so cannot be named here.
type resolver struct {
	*Container
	commands map[string]command
}

// resolve finds the command called name. A status other than 0 says that it cannot be run.
func (c resolver) resolve(dir, searchPath, name string) (r resolved, status int) {
	if name == "" {
		return resolved{reason: "not found"}, 127
	}
	if strings.Contains(name, "/") {
		return c.resolvePath(lang.Abs(dir, name))
	}
	if searchPath == "" {
		searchPath = defaultPath
	}
	for i, elem := range strings.SplitN(searchPath, ":", lang.MaxPath+1) {
		if i == lang.MaxPath {
			break
		}
		at := lang.Abs(dir, elem) + "/" + name
		if c.executable(at) {
			return c.resolveFile(path.Clean(at))
		}
	}
	if p := c.Programs[name]; p != nil {
		return resolved{path: "/usr/bin/" + name, program: p}, 0
	}
	return resolved{reason: "not found"}, 127
}

// executable says whether there is a file at name that can be run.
func (c *Container) executable(name string) bool {
	info, err := c.FS.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// resolvePath is for names with a slash in them. Programs need no file.
func (c resolver) resolvePath(name string) (resolved, int) {
	info, err := c.FS.Stat(name)
	switch {
	case err != nil:
		if p := c.Programs[path.Base(name)]; p != nil {
			return resolved{path: name, program: p}, 0
		}
		return resolved{reason: "not found"}, 127
	case info.IsDir(), info.Mode()&0o111 == 0, !info.Mode().IsRegular():
		return resolved{reason: "Permission denied"}, 126
	}
	return c.resolveFile(name)
}

// resolveFile is for executable files: those of the image stand for built-in commands,
// others are scripts.
func (c resolver) resolveFile(name string) (resolved, int) {
	if cmd, ok := c.imageCommand(name); ok {
		if p := c.Programs[path.Base(name)]; p != nil {
			return resolved{path: name, program: p}, 0
		}
		return resolved{path: name, command: cmd}, 0
	}
	head, err := c.firstLine(name)
	switch {
	case err != nil:
		return resolved{reason: lang.Reason(err)}, 126
	case bytes.IndexByte(head, 0) >= 0:
		return resolved{reason: "Exec format error"}, 126
	}
	line, ok := strings.CutPrefix(string(head), "#!")
	if !ok {
		return resolved{path: name, script: name}, 0
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = words[1:]
	}
	if len(words) == 0 || isShell(words[0]) && len(words) == 1 {
		return resolved{path: name, script: name}, 0
	}
	return resolved{path: name, interpreter: words}, 0
}

// imageCommand is the built-in command that a file of the image stands for: an empty one in
// /bin.
func (c resolver) imageCommand(name string) (command, bool) {
	real, err := c.FS.RealPath(name)
	if err != nil || path.Dir(real) != "/bin" {
		return command{}, false
	}
	info, err := c.FS.Stat(real)
	if err != nil || info.Size() != 0 {
		return command{}, false
	}
	cmd, ok := c.commands[path.Base(real)]
	return cmd, ok
}

func (c *Container) firstLine(name string) ([]byte, error) {
	f, err := c.FS.OpenFile(name, vfs.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, _ := f.Read(buf)
	head, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	return head, nil
}

func isShell(name string) bool {
	switch path.Base(name) {
	case "sh", "bash", "ash", "dash":
		return true
	}
	return false
}

// withDefaults adds PATH and HOME to an environment that lacks them.
func withDefaults(env []string) []string {
	env = append([]string{}, env...)
	if envValue(env, "PATH") == "" {
		env = append(env, "PATH="+defaultPath)
	}
	if envValue(env, "HOME") == "" {
		env = append(env, "HOME=/root")
	}
	return env
}

// envValue is the value of a variable in an environment; the last setting counts.
func envValue(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
