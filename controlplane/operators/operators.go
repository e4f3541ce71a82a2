// Package operators runs the controllers of other projects beside an embedded control plane: it finds the program
// berth-operators, which is built from a module of its own (ADR 74), installs what that program says its controllers need, and runs
// it as a child process with an identity and rights of its own. Which controllers there are, and how they work, only the child
// knows. `berth up --with` calls it.
package operators

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/internal/selfsigned"
)

// Program is the name of the child's file. It lies beside the file of this process, or $PATH has it.
const Program = "berth-operators"

// User is who the child is to the API server.
const User = "system:berth:operators"

// secretName is the variable with the first part of every webhook's path. Other users of the machine can read a process's
// arguments, but not its variables.
const secretName = "BERTH_OPERATORS_SECRET"

// ErrNotBuilt says that there is no such program, and how to get it.
var ErrNotBuilt = errors.New("--with needs the program " + Program + " beside this one: build it with `make operators`")

// Find returns the path of the program.
func Find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), Program); executable(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil || !filepath.IsAbs(path) {
		return "", ErrNotBuilt
	}
	return path, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Options say what is to be run.
type Options struct {
	Program string   // the child's file
	Names   []string // jobset, lws
	Config  *rest.Config
	Dir     string    // for what belongs to this run: a kubeconfig, a key
	Log     io.Writer // for what the child writes
}

// Operators is a child that can be run, and run again after it ended. It keeps the listener of the child's webhooks, so that
// calls of the API server wait while there is no child.
type Operators struct {
	o          Options
	listener   *net.TCPListener
	secret     string
	trust      []byte // PEM of what the webhooks serve with
	kubeconfig string
}

// New makes what a child needs. Close it when no child is to run any more.
func New(o Options) (*Operators, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	s := &Operators{o: o, listener: l, secret: rand.Text() + rand.Text(), kubeconfig: filepath.Join(o.Dir, Program+".kubeconfig")}
	if err := errors.Join(s.makeCertificate(), s.writeKubeconfig()); err != nil {
		l.Close()
		return nil, fmt.Errorf("prepare %s: %w", Program, err)
	}
	return s, nil
}

// Close ends what New began.
func (s *Operators) Close() error { return s.listener.Close() }

func (s *Operators) file(ending string) string { return filepath.Join(s.o.Dir, Program+ending) }

func (s *Operators) makeCertificate() error {
	c, bundle, err := selfsigned.New(time.Now(), []string{Program}, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	s.trust = bundle
	return errors.Join(
		home.WriteFile(s.file(".crt"), bundle),
		home.WriteFile(s.file(".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	)
}

func (s *Operators) writeKubeconfig() error {
	const name = "berth"
	ca, err := os.ReadFile(s.o.Config.CAFile)
	if err != nil {
		return err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: s.o.Config.Host, CertificateAuthorityData: ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.o.Config.BearerToken}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	b, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	return home.WriteFile(s.kubeconfig, b)
}

// stopFor is how long a child that is told to end may take for it.
const stopFor = 10 * time.Second

// Run runs the child until ctx ends, or the child does.
func (s *Operators) Run(ctx context.Context) error {
	listener, err := s.listener.File()
	if err != nil {
		return err
	}
	defer listener.Close()
	alive, held, err := os.Pipe() // the child sees the end of it when this process ends, however it does
	if err != nil {
		return err
	}
	defer alive.Close()
	defer held.Close()
	child := s.command(ctx, "run", "--kubeconfig", s.kubeconfig, "--cert", s.file(".crt"), "--key", s.file(".key"))
	child.Stdout, child.Stderr = s.o.Log, s.o.Log
	child.ExtraFiles = []*os.File{listener, alive}
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent, which stops its children in order
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.WaitDelay = stopFor
	return child.Run()
}

func (s *Operators) command(ctx context.Context, verb string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, s.o.Program, append([]string{verb, "--with", strings.Join(s.o.Names, ",")}, args...)...)
	// Nothing of the user's environment is the child's business, above all no KUBECONFIG and no proxy.
	c.Env = []string{"PATH=" + os.Getenv("PATH"), secretName + "=" + s.secret}
	return c
}

// maxManifests bounds what the child says has to be installed.
const maxManifests = 32 << 20

// manifests asks the child what has to be installed.
func (s *Operators) manifests(ctx context.Context) ([]byte, error) {
	c := s.command(ctx, "manifests", "--url", "https://"+s.listener.Addr().String(), "--ca", s.file(".crt"), "--user", User)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
			return nil, fmt.Errorf("%w (%w)", ErrNotBuilt, err)
		}
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(out, maxManifests))
	if waited := c.Wait(); waited != nil {
		line, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(said.String()), Program+": "), "\n")
		return nil, fmt.Errorf("--with %s: %s", strings.Join(s.o.Names, ","), line)
	}
	return text, err
}
