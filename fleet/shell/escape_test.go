package shell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secret is on the host only: in a file, in the environment, behind a port.
const secret = "HOST-SECRET-7f3a"

// TestEscape tries to get out of the container. In the scripts HOST is a directory of the
// host with a secret file, a script and a directory in it; PORT is a port of the host that
// answers with the secret.
func TestEscape(t *testing.T) {
	scripts := map[string]string{
		"read":                 `cat HOST/secret; cat < HOST/secret; x=$(<HOST/secret); echo "$x"; while read l; do echo $l; done < HOST/secret`,
		"read with commands":   `head HOST/secret; tail HOST/secret; grep . HOST/secret; sed p HOST/secret; sort HOST/secret; wc HOST/secret; base64 HOST/secret; md5sum HOST/secret; cp HOST/secret /tmp/x; cat /tmp/x; tac HOST/secret; cut -c1- HOST/secret; tr a b < HOST/secret; mapfile a < HOST/secret; echo "${a[@]}"`,
		"stat":                 `for f in HOST HOST/secret HOST/dir; do test -e $f && echo HOST-SECRET-7f3a; [ -f $f ] && echo HOST-SECRET-7f3a; [[ -d $f || -r $f || -w $f || -x $f || -s $f || -O $f || -G $f || $f -nt /etc || $f -ef $f ]] && echo HOST-SECRET-7f3a; stat $f; ls -la $f; done`,
		"glob":                 `echo HOST/* HOST/*/* HOST/s?cret; shopt -s globstar nullglob dotglob; echo HOST/**; ls HOST/*; cd HOST && echo *`,
		"source":               `. HOST/script; source HOST/script; PATH=HOST; . script; source secret`,
		"exec":                 `HOST/script; exec HOST/script`,
		"exec in path":         `PATH=HOST:$PATH; script; command script; command -v script && echo HOST-SECRET-7f3a; type script; which script; hash script; env script; xargs script </dev/null; timeout 1 script; nohup script`,
		"host shell":           `exec /bin/sh -c 'cat HOST/secret; echo pwned > HOST/pwned'`,
		"host shells":          `/bin/bash -c 'echo pwned > HOST/pwned'; /usr/bin/env sh -c 'echo x >> HOST/secret'; bash -lc 'cat HOST/secret'`,
		"write":                `echo pwned > HOST/pwned; echo pwned >> HOST/secret; echo pwned | tee HOST/pwned; cp /etc/passwd HOST/pwned; touch HOST/pwned; mkdir HOST/pwned; mkdir -p HOST/a/b; echo pwned > HOST/a/b/c; ln -s / HOST/pwned; mv /etc/passwd HOST/; mktemp -p HOST; dd of=HOST/pwned; : > HOST/secret; : <> HOST/pwned`,
		"remove":               `rm -rf HOST HOST/secret HOST/dir; rmdir HOST/dir; mv HOST/secret /tmp; chmod 0 HOST/secret; truncate -s 0 HOST/secret; find HOST -delete; sed -i s/./x/ HOST/secret`,
		"process substitution": `TMPDIR=HOST; export TMPDIR; cat <(echo x); echo > >(cat)`,
		"hidden substitution":  `TMPDIR=HOST; eval 'cat <(echo x)'; trap 'cat <(echo x)' EXIT; echo 'cat <(echo x)' > /tmp/s; . /tmp/s`,
		"alias and arithmetic": `shopt -s expand_aliases; alias x='cat <(echo x)'; x; a=(1 2); unset 'a[$(cat <(echo 1))]'; let 'x=$(cat <(echo 1))'`,
		"coproc":               `coproc cat HOST/secret`,
		"cd":                   `cd HOST && pwd && ls && cat secret; cd HOST/dir/..; pushd HOST; cat ./secret; CDPATH=HOST cd dir`,
		"links":                `ln -s HOST/secret /tmp/l; cat /tmp/l; ln -s HOST /tmp/d; ls /tmp/d/; cat /tmp/d/secret; readlink -f /tmp/l >/dev/null; ln -s ../../../../../../../../HOST/secret /l; cat /l`,
		"dots":                 `cat /../../../../HOST/secret ../../../HOST/secret; cd ..; cd ../../..; cat HOST/secret; cat //HOST//secret`,
		"proc":                 `cat /proc/self/environ /proc/self/cmdline /proc/self/maps /proc/self/cwd/secret /proc/PID/environ /proc/PID/cmdline; ls -l /proc/self/exe /proc/self/cwd /proc/self/root /proc/self/fd; cat /proc/1/environ /proc/1/root/HOST/secret`,
		"descriptors":          `cat /dev/fd/3 /dev/fd/4; cat <&3; cat <&9; echo x >&5; ls /dev/fd; exec 9<HOST/secret; cat <&9`,
		"environment":          `env; printenv; set; export -p; declare -p; echo $HOST_SECRET_VARIABLE; sh -c env; env -i sh -c env; compgen -v`,
		"users":                `echo ~HOSTUSER ~HOSTUSER/x; x='~HOSTUSER'; [ "$x" = "$x" ]; [[ $x == ~HOSTUSER ]]; echo ~HOSTUSER | cat; (echo ~HOSTUSER) & wait; y=~HOSTUSER; echo $y; getent passwd; cat /etc/shadow`,
		"network":              `curl -s http://127.0.0.1:PORT; curl -s localhost:PORT; wget -qO- http://127.0.0.1:PORT; wget -qO- 127.0.0.1:PORT; nc 127.0.0.1 PORT </dev/null; nc -l -p PORT & echo > /dev/tcp/127.0.0.1/PORT; cat < /dev/tcp/127.0.0.1/PORT; kill $!`,
		"other hosts":          `curl -m 1 http://HOSTNAME:PORT; curl -m 1 http://[::]:PORT; curl -m 1 http://0:PORT; curl -m 1 http://127.1:PORT; curl -m 1 http://2130706433:PORT; curl -sk https://127.0.0.1:PORT; curl https://localhost:PORT; http_proxy=http://127.0.0.1:PORT curl http://example.com; curl file://HOST/secret; curl -o HOST/pwned http://localhost:PORT; wget -O HOST/pwned http://localhost:PORT`,
		"serving":              `httpd -p 8080 -h HOST; curl -s localhost:8080/secret; curl -s localhost:8080/; httpd -p 8081 -h /; curl -s localhost:8081/HOST/secret; curl -s localhost:8081/../../HOST/secret`,
		"signals":              `kill -9 PID; kill PID; kill -TERM PPID; kill -0 PID && echo HOST-SECRET-7f3a`,
		"history and help":     `help; history; ulimit -a; umask; times; bind; caller; enable -f HOST/script x; suspend; fc; newgrp`,
		"here document":        "cat <<E\n$(cat HOST/secret)\n`cat HOST/secret`\nE\n",
		"find and xargs":       `find HOST; find / -name secret | xargs cat; echo HOST/secret | xargs cat; du HOST; df HOST; grep -r HOST-SECRET /`,
		"shebang":              `printf '#!HOST/script\n' > /tmp/s; chmod +x /tmp/s; /tmp/s; printf '#!/bin/cat HOST/secret\n' > /tmp/t; chmod +x /tmp/t; /tmp/t`,
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			r := runIn(t, newContainer(), "", "bash", "-c", h.fill(script))
			h.check(t, r)
		})
	}
}

// host is what must not be reached.
type host struct {
	dir    string
	port   int
	before []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{dir: t.TempDir()}
	t.Setenv("HOST_SECRET_VARIABLE", secret)
	for name, text := range map[string]string{
		"secret": secret + "\n", "script": "#!/bin/sh\necho " + secret + "\ntouch " + h.dir + "/pwned\n", "dir/file": secret,
	} {
		full := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h.port = l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\n" + secret + "\n"))
			c.Close()
		}
	}()
	h.before = h.list(t)
	return h
}

// fill puts the host's names into a script.
func (h *host) fill(script string) string {
	name, _ := os.Hostname()
	return strings.NewReplacer(
		"HOSTNAME", name, "HOSTUSER", "daemon", "HOST/", h.dir+"/", "HOST ", h.dir+" ", "HOST;", h.dir+";", "HOST\n", h.dir+"\n",
		"PATH=HOST:", "PATH="+h.dir+":", "PPID", strconv.Itoa(os.Getppid()), "PID", strconv.Itoa(os.Getpid()), "PORT", strconv.Itoa(h.port),
	).Replace(script)
}

// list is every file of the host directory with its content.
func (h *host) list(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(h.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			list = append(list, name)
			return err
		}
		data, err := os.ReadFile(name)
		list = append(list, name+": "+string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// check fails if something of the host got into the container, or the other way round.
func (h *host) check(t *testing.T, r result) {
	t.Helper()
	home, _ := os.UserHomeDir()
	wd, _ := os.Getwd()
	for _, leak := range []string{secret, "root:x:0:0:root:/root:/bin/bash", "/usr/sbin/nologin", wd, "goroutine "} {
		if strings.Contains(r.Stdout+r.Stderr, leak) {
			t.Errorf("%q leaked:\n%s\n%s", leak, r.Stdout, r.Stderr)
		}
	}
	if home != "/root" && strings.Contains(r.Stdout, home) {
		t.Errorf("home directory leaked:\n%s", r.Stdout)
	}
	if strings.Contains(r.Stderr, "internal error") {
		t.Errorf("internal error:\n%s", r.Stderr)
	}
	if diff := cmp.Diff(h.before, h.list(t)); diff != "" {
		t.Errorf("the host changed (-before +after):\n%s", diff)
	}
}

// TestIdentity checks that what a container says about itself is not about the host.
func TestIdentity(t *testing.T) {
	t.Setenv("HOST_SECRET_VARIABLE", secret)
	got := sh(t, `echo $$ $PPID $UID $EUID $PWD $HOME $HOSTNAME; whoami; hostname; id; pwd; uname -n; echo ~ ~root; env`)
	want := result{Stdout: `1 0 0 0 / /root
root
pod-0
uid=0(root) gid=0(root) groups=0(root)
/
pod-0
/root /root
HOME=/root
PATH=` + defaultPath + "\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestImports checks by the source that there is no way to the host: packages that reach it
// are not imported, and those that could are used only for what cannot.
func TestImports(t *testing.T) {
	allowed := map[string][]string{ // package: what of it may be used; nil: all
		"net":           {"Addr", "Conn", "ErrClosed", "IPv4", "Listener", "OpError", "Pipe", "SplitHostPort", "TCPAddr"},
		"http":          {"Client", "ErrUseLastResponse", "Error", "FS", "FileServer", "Handler", "HandlerFunc", "MethodGet", "MethodHead", "MethodPost", "NewRequestWithContext", "Request", "Response", "ResponseWriter", "Server", "StatusServiceUnavailable", "Transport"},
		"tls":           {"Config"},
		"x509":          {"NewCertPool"},
		"time":          strings.Fields("AfterFunc Date Duration Hour January Microsecond Millisecond Minute NewTicker NewTimer Now ParseInLocation RFC3339 Second Since Time UTC Unix"), // not Parse or Local, which ask the host's time zone
		"syscall":       {"Errno", "E"},
		"runtime":       {"AddCleanup", "Callers", "GOMAXPROCS"},
		"log":           {"New"},
		"tar":           {"Header", "NewReader", "NewWriter", "TypeDir", "TypeReg", "TypeSymlink", "Writer"}, // not what asks about files of the host
		"expand":        nil,
		"syntax":        nil,
		"pattern":       nil,
		"clock":         nil,
		"budget":        nil,
		"lang":          nil,
		"regex":         nil,
		"fd":            nil,
		"vfs":           nil,
		"standard pure": nil,
	}
	pure := strings.Fields(`bufio bytes cmp compress/gzip context crypto/md5 crypto/sha1 crypto/sha256 crypto/sha512 encoding/base64
		encoding/hex errors fmt hash io io/fs iter maps math math/rand/v2 net/url path regexp regexp/syntax slices strconv strings sync
		sync/atomic unicode unicode/utf8`)
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		restricted := map[string][]string{}
		for _, imp := range f.Imports {
			full, _ := strconv.Unquote(imp.Path.Value)
			if slices.Contains(pure, full) {
				continue
			}
			base := full[strings.LastIndexByte(full, '/')+1:]
			uses, ok := allowed[base]
			if !ok {
				t.Errorf("%s imports %s", name, full)
			}
			if uses != nil {
				restricted[base] = uses
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || restricted[pkg.Name] == nil || pkg.Obj != nil {
				return true
			}
			if !slices.ContainsFunc(restricted[pkg.Name], func(use string) bool {
				return sel.Sel.Name == use || pkg.Name == "syscall" && strings.HasPrefix(sel.Sel.Name, "E")
			}) {
				t.Errorf("%s uses %s.%s", name, pkg.Name, sel.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}
