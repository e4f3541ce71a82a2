package stream

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Only the holder of the API server's certificate gets past the door, on any path.
func TestCallersAreRefused(t *testing.T) {
	s := serve(t, &fake{})
	stranger := newAuthority(t)
	callers := []struct {
		name string
		cert *tls.Certificate
		want string
	}{
		{"no certificate", nil, "401 a client certificate is required"},
		{"wrong CA", pick(stranger.issue(t, clientName, x509.ExtKeyUsageClientAuth)), "tls: "},
		{"serving certificate", pick(s.ca.issue(t, clientName, x509.ExtKeyUsageServerAuth)), "tls: "},
		{"wrong name", pick(s.ca.issue(t, "system:node:a", x509.ExtKeyUsageClientAuth)),
			`403 client "system:node:a" may not call the kubelet endpoint`},
		{"no name", pick(s.ca.issue(t, "", x509.ExtKeyUsageClientAuth)), `403 client "" may not call the kubelet endpoint`},
	}
	for _, caller := range callers {
		for _, path := range []string{"/healthz", "/exec/ns/pod/c?command=id&output=1", "/containerLogs/ns/pod/c", "/nowhere"} {
			t.Run(caller.name+path, func(t *testing.T) {
				if got := knock(s, caller.cert, path); !strings.HasPrefix(got, caller.want) {
					t.Errorf("answer %q, want %q", got, caller.want)
				}
			})
		}
	}
}

func pick[T any](v T) *T { return &v }

// knock sends cert whether or not the server would like it, and returns the answer as text.
func knock(s *service, cert *tls.Certificate, path string) string {
	config := &tls.Config{RootCAs: s.ca.pool()}
	if cert != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("https://127.0.0.1:%d%s", s.Port(), path))
	if err != nil {
		return err.Error()[strings.Index(err.Error(), "tls: "):]
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

func TestPlainHTTPIsRefused(t *testing.T) {
	s := serve(t, &fake{})
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestListenRefusesOtherMachines(t *testing.T) {
	ca := newAuthority(t)
	opts := Options{
		Backend: &fake{}, Certificate: ca.issue(t, "kubelet", x509.ExtKeyUsageServerAuth),
		ClientCAs: ca.pool(), ClientName: clientName,
	}
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "10.0.0.1:10250"} {
		_, err := Listen(addr, opts)
		want := fmt.Sprintf("kubelet endpoint: refusing to listen on %q: only loopback addresses such as 127.0.0.1 are allowed", addr)
		if err == nil || err.Error() != want {
			t.Errorf("Listen(%q): %v\nwant %s", addr, err, want)
		}
	}
	if _, err := Listen("127.0.0.1", opts); err == nil || !strings.Contains(err.Error(), "missing port") {
		t.Errorf("address without a port: %v", err)
	}
}

func TestListenRefusesOpenDoors(t *testing.T) {
	ca := newAuthority(t)
	good := Options{
		Backend: &fake{}, Certificate: ca.issue(t, "kubelet", x509.ExtKeyUsageServerAuth),
		ClientCAs: ca.pool(), ClientName: clientName,
	}
	tests := []struct {
		want  string
		spoil func(*Options)
	}{
		{"no backend", func(o *Options) { o.Backend = nil }},
		{"no serving certificate", func(o *Options) { o.Certificate = tls.Certificate{} }},
		{"no CA for client certificates", func(o *Options) { o.ClientCAs = nil }},
		{"no client name", func(o *Options) { o.ClientName = "" }},
	}
	for _, test := range tests {
		opts := good
		test.spoil(&opts)
		if _, err := Listen("127.0.0.1:0", opts); err == nil || err.Error() != "kubelet endpoint: "+test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	s := serve(t, &fake{})
	tests := []struct {
		path   string
		status int
		body   string
	}{
		{"/healthz", 200, "ok"},
		{"/", 404, "404 page not found\n"},
		{"/exec/ns/pod", 404, "404 page not found\n"},
		{"/exec/ns/pod/c", 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"/exec/ns/pod/c?output=1", 400, "you must specify a command"},
		{"/attach/ns/pod/c", 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"/containerLogs/ns/pod", 404, "404 page not found\n"},
	}
	for _, test := range tests {
		resp, err := s.client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", s.Port(), test.path))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if diff := cmp.Diff(test.body, string(body)); err != nil || resp.StatusCode != test.status || diff != "" {
			t.Errorf("%s: status %d, error %v, body (-want +got):\n%s", test.path, resp.StatusCode, err, diff)
		}
	}
}

// A Server that is stopped holds no connection, not even an idle one, and can be left.
func TestStopClosesIdleConnections(t *testing.T) {
	s := serve(t, &fake{})
	if status, _ := s.get(t, "/healthz", nil); status != 200 {
		t.Fatal(status)
	}
	s.shutdown(t)
	if _, err := s.client.Get(s.url("/healthz", nil).String()); err == nil {
		t.Error("it still answers")
	}
}
