package answer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/engine"
)

// court is an API server that knows tokens and rights, and a server of answers that asks it.
type court struct {
	t       *testing.T
	client  *fake.Clientset
	server  *Server
	ca      authority
	address string

	tokens  map[string]string   // user by token
	rights  map[string][]string // by user: "verb resource namespace", namespace "*" for all of them
	reviews atomic.Int64        // of either kind
	broken  error               // the answer to every review, while set
}

func newCourt(t *testing.T, source Source) *court {
	t.Helper()
	c := &court{t: t, client: fake.NewClientset(), ca: newAuthority(t), tokens: map[string]string{}, rights: map[string][]string{}}
	c.client.PrependReactor("create", "tokenreviews", c.reviewToken)
	c.client.PrependReactor("create", "subjectaccessreviews", c.reviewAccess)
	c.trust(c.ca)
	var err error
	if c.server, err = New(c.client, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := c.server.proxies.reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.server.Lead(source)
	c.server.Exposition(func() (string, error) { return "berth_scheduler_cycles_total 3\n", nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// trust makes the authority the one that vouches for the API server.
func (c *court) trust(ca authority) {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ServiceNamespace, Name: TrustName},
		Data: map[string]string{
			"requestheader-client-ca-file": string(ca.pem), "requestheader-allowed-names": `["front-proxy"]`,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}
	configMaps := c.client.CoreV1().ConfigMaps(ServiceNamespace)
	if _, err := configMaps.Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
		if _, err := configMaps.Update(context.Background(), m, metav1.UpdateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *court) reviewToken(a clienttesting.Action) (bool, runtime.Object, error) {
	c.reviews.Add(1)
	r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
	if user := c.tokens[r.Spec.Token]; user != "" {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user}}
	}
	return true, r, c.broken
}

func (c *court) reviewAccess(a clienttesting.Action) (bool, runtime.Object, error) {
	c.reviews.Add(1)
	r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
	what := ""
	if on := r.Spec.NonResourceAttributes; on != nil {
		what = on.Verb + " " + on.Path
	}
	if on := r.Spec.ResourceAttributes; on != nil {
		what = on.Verb + " " + strings.TrimSuffix(on.Resource+"/"+on.Subresource, "/") + " "
		r.Status.Allowed = slices.Contains(c.rights[r.Spec.User], what+"*")
		what += on.Namespace
	}
	r.Status.Allowed = r.Status.Allowed || slices.Contains(c.rights[r.Spec.User], what)
	return true, r, c.broken
}

// caller is somebody who asks.
type caller struct {
	certificate *tls.Certificate
	token       string
	headers     map[string]string
	method      string
}

// proxied is the API server that asks for the user.
func (c *court) proxied(user string) caller {
	return caller{certificate: c.ca.issue(c.t, "front-proxy"), headers: map[string]string{"X-Remote-User": user, "X-Remote-Group": "team"}}
}

// ask returns the answer to a request for the path.
func (c *court) ask(who caller, path string) (code int, body string) {
	c.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.server.certificates.shown.pem)
	cfg := &tls.Config{RootCAs: roots, ServerName: ClusterService + "." + ServiceNamespace + ".svc"}
	if who.certificate != nil {
		// Shown whatever the server says it would like to see.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return who.certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	defer transport.CloseIdleConnections()
	method := http.MethodGet
	if who.method != "" {
		method = who.method
	}
	r, err := http.NewRequest(method, "https://"+c.address+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range who.headers {
		r.Header.Set(k, v)
	}
	if who.token != "" {
		r.Header.Set("Authorization", "Bearer "+who.token)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// want asks and reads what must be an answer.
func want[T any](c *court, who caller, path string) (value T) {
	c.t.Helper()
	code, body := c.ask(who, path)
	if code != http.StatusOK {
		c.t.Fatalf("%s: %d: %s", path, code, body)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&value); err != nil {
		c.t.Fatalf("%s: %v in %s", path, err, body)
	}
	return value
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(t *testing.T, name string, change ...func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// known is a source of fixed answers.
type known struct {
	workloads []Workload
	queues    []Queue
	err       error
	block     chan struct{} // answers wait for it, where not nil
}

func (k *known) Workloads(_ context.Context, namespace string) ([]Workload, error) {
	var out []Workload
	for _, w := range k.workloads {
		if namespace == "" || w.Namespace == namespace {
			out = append(out, w)
		}
	}
	return out, k.err
}

func (k *known) Workload(ctx context.Context, namespace, name string) (Workload, error) {
	if k.block != nil {
		select {
		case <-k.block:
		case <-ctx.Done():
			return Workload{}, ErrBusy
		}
	}
	for _, w := range k.workloads {
		if w.Namespace == namespace && w.Name == name {
			return w, k.err
		}
	}
	return Workload{}, errors.Join(ErrNotFound, k.err)
}

func (k *known) Queues(context.Context) ([]Queue, error) { return k.queues, k.err }
func (k *known) Configuration() Configuration {
	return Configuration{ObjectMeta: metav1.ObjectMeta{Name: "berth"}, SchedulerNames: []string{"berth", "default-scheduler"}, Engine: engine.Load(engine.Snapshot{}, engine.Config{
		Levels: []engine.Level{{Name: "rack", Label: "example.com/rack"}}, Policy: engine.Strict, Rates: []engine.Rate{{Model: "H100", Units: 4}}, Overtake: time.Minute,
	}).Config()}
}
func (k *known) Ready() error { return k.err }
