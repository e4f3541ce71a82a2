package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// servers are the processes of an API server and its store. They end with close, the last first.
type servers struct {
	options
	children []*child
	admin    string // kubeconfig of an administrator
	client   kubernetes.Interface
	version  string
}

type child struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
}

// startLimit bounds how long a server may take until it is ready.
const startLimit = 3 * time.Minute

// start runs a program with its output in a file.
func (s *servers) start(name, program string, args ...string) (*child, error) {
	out, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "KUBECONFIG=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process, which ends the others in order
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{name, cmd, make(chan struct{})}
	go func() { cmd.Wait(); close(c.ended) }()
	s.children = append(s.children, c)
	return c, nil
}

// end asks the process to end, and kills it if it does not.
func (c *child) end() {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(10 * time.Second):
		c.cmd.Process.Kill()
		<-c.ended
	}
}

func (s *servers) close() {
	for len(s.children) > 0 {
		last := len(s.children) - 1
		s.children[last].end()
		s.children = s.children[:last]
	}
}

// freeAddress is a port of the loopback interface that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startServers starts both with empty data and waits until it is ready.
func startServers(ctx context.Context, o options) (s *servers, err error) {
	s = &servers{options: o}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var at [3]string
	for i := range at {
		if at[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	clients, peers := "http://"+at[0], "http://"+at[1]
	if _, err = s.start("etcd", filepath.Join(o.tools, "etcd"), "--name=older", "--data-dir="+filepath.Join(o.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients, "--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=older="+peers); err != nil {
		return nil, err
	}
	if err = s.writeSecrets("https://" + at[2]); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(at[2])
	key := filepath.Join(o.dir, "accounts.key")
	if _, err = s.start("kube-apiserver", filepath.Join(o.tools, "kube-apiserver"), "--etcd-servers="+clients, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+s.certificates(), "--token-auth-file="+filepath.Join(o.dir, "tokens.csv"), "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--endpoint-reconciler-type=none", "--requestheader-client-ca-file="+filepath.Join(o.dir, "front.crt"), "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--proxy-client-cert-file="+filepath.Join(o.dir, "front.crt"), "--proxy-client-key-file="+key); err != nil {
		return nil, err
	}
	err = s.ready(ctx)
	return s, err
}

func (s *servers) certificates() string { return filepath.Join(s.dir, "certificates") }

// writeSecrets makes the key of service accounts, the certificate by which APIs behind the API server know it, an administrator's token, and
// the administrator's kubeconfig. The certificate that the API server serves with is of its own making and vouches for itself.
func (s *servers) writeSecrets(host string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	now := time.Now()
	front := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, front, front, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	token := hex.EncodeToString(secret)
	s.admin = filepath.Join(s.dir, "admin.kubeconfig")
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "accounts.key"), text, 0o600),
		os.WriteFile(filepath.Join(s.dir, "front.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600),
		os.WriteFile(filepath.Join(s.dir, "tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600),
		s.writeKubeconfig(s.admin, host, token),
	)
}

func (s *servers) writeKubeconfig(file, host, token string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"older": {Server: host, CertificateAuthority: filepath.Join(s.certificates(), "apiserver.crt")}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"older": {Cluster: "older", AuthInfo: "user"}},
		CurrentContext: "older",
	}, file)
}

// ready waits until the API server is, and connects.
func (s *servers) ready(ctx context.Context) error {
	server := s.children[len(s.children)-1]
	var last error
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		select {
		case <-server.ended:
			return fmt.Errorf("%s has ended", server.name)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if last = s.connect(ctx); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the API server is not ready after %v: %w", startLimit, last)
}

func (s *servers) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.admin) // the certificate is there once the server has made it
	if err != nil {
		return err
	}
	config.QPS, config.Timeout = -1, 30*time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.client, s.version = client, "Kubernetes "+version.GitVersion
	return nil
}
