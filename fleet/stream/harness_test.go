package stream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

const clientName = "kube-apiserver-kubelet-client"

// patience is how long a test waits for what must happen soon.
const patience = 10 * time.Second

// fake is a Backend of functions; a nil one is never called.
type fake struct {
	logs    func(ctx context.Context, ref Ref, opts *corev1.PodLogOptions, w io.Writer) error
	exec    func(ctx context.Context, ref Ref, cmd []string, s Streams) (int, error)
	attach  func(ctx context.Context, ref Ref, s Streams) error
	forward func(ctx context.Context, ref Ref, port int32, conn io.ReadWriteCloser) error
	check   func(ref Ref) error
}

func (f *fake) Logs(ctx context.Context, ref Ref, opts *corev1.PodLogOptions, w io.Writer) error {
	return f.logs(ctx, ref, opts, w)
}

func (f *fake) Exec(ctx context.Context, ref Ref, cmd []string, s Streams) (int, error) {
	return f.exec(ctx, ref, cmd, s)
}

func (f *fake) Attach(ctx context.Context, ref Ref, s Streams) error { return f.attach(ctx, ref, s) }

func (f *fake) PortForward(ctx context.Context, ref Ref, port int32, conn io.ReadWriteCloser) error {
	return f.forward(ctx, ref, port, conn)
}

func (f *fake) Check(_ context.Context, ref Ref) error {
	if f.check == nil {
		return nil
	}
	return f.check(ref)
}

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate for a name and a use.
func (a *authority) issue(t *testing.T, name string, use x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{use}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// service is a Server that runs, and a client that may call it.
type service struct {
	*Server
	ca     *authority
	config *rest.Config
	client *http.Client
	stop   context.CancelFunc
	served chan error
}

func serve(t *testing.T, backend Backend) *service {
	t.Helper()
	ca := newAuthority(t)
	server, err := Listen("127.0.0.1:0", Options{
		Backend:        backend,
		Certificate:    ca.issue(t, "kubelet", x509.ExtKeyUsageServerAuth),
		ClientCAs:      ca.pool(),
		ClientName:     clientName,
		Aggregated:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "aggregated "+r.URL.Path) }),
		AggregatorName: "front-proxy",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{Server: server, ca: ca, stop: cancel, served: make(chan error, 1)}
	go func() { s.served <- server.Serve(ctx) }()
	t.Cleanup(func() { s.shutdown(t) })
	s.config = restConfig(t, s, ca.issue(t, clientName, x509.ExtKeyUsageClientAuth))
	s.client, err = rest.HTTPClientFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restConfig is a client's configuration with a certificate.
func restConfig(t *testing.T, s *service, cert tls.Certificate) *rest.Config {
	t.Helper()
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{
		Host: s.url("", nil).Host,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.ca.cert.Raw}),
			CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
			KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		},
	}
}

func (s *service) url(path string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", s.Port()), Path: path, RawQuery: query.Encode()}
}

// shutdown ends Serve and checks that it left nothing open. It may be called twice.
func (s *service) shutdown(t *testing.T) {
	t.Helper()
	s.stop()
	select {
	case err := <-s.served:
		s.served <- err
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(patience):
		t.Error("Serve does not return")
	}
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	if s.calls.open > 0 {
		t.Errorf("%d calls are left", s.calls.open)
	}
	if len(s.listener.open) > 0 {
		t.Errorf("%d connections are left", len(s.listener.open))
	}
}

// get does a request with the good client.
func (s *service) get(t *testing.T, path string, query url.Values) (status int, body string) {
	t.Helper()
	resp, err := s.client.Get(s.url(path, query).String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// soon waits for a channel and fails the test if it takes too long.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing happened for %v", what, patience)
		panic("unreachable")
	}
}
