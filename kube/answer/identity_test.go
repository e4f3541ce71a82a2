package answer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const listOfA = "/apis/" + GroupVersion + "/namespaces/a/workloads"

func TestNobodyIsAnsweredWithoutProof(t *testing.T) {
	c := newCourt(t, &known{})
	c.rights["admin"] = []string{"list workloads *", "list pods *"}
	c.tokens["good"] = "admin"
	as := map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
	for name, who := range map[string]caller{
		"nothing":            {},
		"headers alone":      {headers: as},
		"another authority":  {certificate: newAuthority(t).issue(t, "front-proxy"), headers: as},
		"a name not allowed": {certificate: c.ca.issue(t, "system:node:n1"), headers: as},
		"a certificate to serve with": {certificate: c.ca.issue(t, "front-proxy", func(x *x509.Certificate) {
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), headers: as},
		"a certificate that is over": {certificate: c.ca.issue(t, "front-proxy", func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) }), headers: as},
		"the API server for nobody":  {certificate: c.ca.issue(t, "front-proxy")},
		"a wrong token":              {token: "bad", headers: as},
		"an empty token":             {headers: map[string]string{"Authorization": "Bearer "}},
		"a password":                 {headers: map[string]string{"Authorization": "Basic Z29vZA=="}},
	} {
		for _, path := range []string{listOfA, "/apis/" + GroupVersion, "/metrics", "/", "/apis/" + GroupVersion + "/queues"} {
			if code, body := c.ask(who, path); code != http.StatusUnauthorized {
				t.Errorf("%s asks for %s: %d %s", name, path, code, body)
			}
		}
	}
	if code, _ := c.ask(caller{token: "good"}, listOfA); code != http.StatusOK {
		t.Errorf("a good token: %d", code)
	}
	if code, _ := c.ask(c.proxied("admin"), listOfA); code != http.StatusOK {
		t.Errorf("the API server: %d", code)
	}
}

func TestHealthIsForEverybody(t *testing.T) {
	source := &known{}
	c := newCourt(t, source)
	for path, want := range map[string]int{"/livez": 200, "/healthz": 200, "/readyz": 200} {
		if code, body := c.ask(caller{}, path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	source.err = errors.New("a cycle has not ended")
	if code, body := c.ask(caller{}, "/readyz"); code != 503 || !strings.Contains(body, "a cycle has not ended") {
		t.Errorf("a scheduler that is stuck: %d %s", code, body)
	}
	c.server.Lead(nil)
	if code, body := c.ask(caller{}, "/readyz"); code != 503 || !strings.Contains(body, "does not lead") {
		t.Errorf("one that stands by: %d %s", code, body)
	}
	c.server.Warm(true)
	if code, body := c.ask(caller{}, "/readyz"); code != 200 || body != "ok; standing by\n" {
		t.Errorf("one that stands by and could lead at once: %d %s", code, body)
	}
	if code, _ := c.ask(caller{}, "/livez"); code != 200 {
		t.Errorf("one that stands by lives: %d", code)
	}
}

// A review that fails is never a yes, and its error does not repeat what was asked.
func TestAReviewThatFailsIsNoAnswer(t *testing.T) {
	c := newCourt(t, &known{})
	c.tokens["s3cret"] = "admin"
	c.rights["admin"] = []string{"list workloads *"}
	c.broken = errors.New("etcd is away")
	for name, who := range map[string]caller{"by token": {token: "s3cret"}, "by the API server": c.proxied("admin")} {
		code, body := c.ask(who, listOfA)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "etcd is away") || strings.Contains(body, "s3cret") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	c.broken = nil
	if code, _ := c.ask(caller{token: "s3cret"}, listOfA); code != http.StatusOK {
		t.Errorf("once the review works: %d", code)
	}
}

func TestReviewsAreRemembered(t *testing.T) {
	c := newCourt(t, &known{})
	c.tokens["good"] = "admin"
	c.rights["admin"] = []string{"list workloads a"}
	for range 5 {
		c.ask(caller{token: "good"}, listOfA)
	}
	if n := c.reviews.Load(); n > 5 {
		t.Errorf("%d reviews for five requests", n)
	}
}

func TestACAThatIsReplacedIsFollowed(t *testing.T) {
	c := newCourt(t, &known{})
	c.rights["admin"] = []string{"list workloads a"}
	old := c.proxied("admin")
	c.ca = newAuthority(t)
	c.trust(c.ca)
	if err := c.server.proxies.reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if code, _ := c.ask(old, listOfA); code != http.StatusUnauthorized {
		t.Errorf("the old one: %d", code)
	}
	if code, _ := c.ask(c.proxied("admin"), listOfA); code != http.StatusOK {
		t.Errorf("the new one: %d", code)
	}
}

func TestTrustThatCannotBeReadTrustsNobody(t *testing.T) {
	for _, data := range []map[string]string{
		{},
		{"requestheader-client-ca-file": "not a certificate"},
		{"requestheader-client-ca-file": string(newAuthority(t).pem), "requestheader-allowed-names": "front-proxy"},
	} {
		if got, _ := readTrust(data); got.roots != nil {
			t.Errorf("%v gave %+v", data, got)
		}
	}
}

func TestTheUserIsWhomTheHeadersName(t *testing.T) {
	c := newCourt(t, &known{})
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.Header = http.Header{"X-Remote-User": {"eve"}, "X-Remote-Group": {"a", "b"}, "X-Remote-Extra-Authentication.kubernetes.io%2fpod-Name": {"p"}, "Other": {"x"}}
	front, err := x509.ParseCertificate(c.ca.issue(t, "front-proxy").Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{front}}
	got, _ := c.server.proxies.user(r)
	want := authenticationv1.UserInfo{Username: "eve", Groups: []string{"a", "b"}, Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"p"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// While the API server is away this process lives, is not ready, and says how long.
func TestOutageIsSaid(t *testing.T) {
	s := &Server{}
	s.Outage(func() (time.Duration, error) { return 192 * time.Second, errors.New("connection refused") })
	live, ready := httptest.NewRecorder(), httptest.NewRecorder()
	s.live(live, nil)
	s.ready(ready, nil)
	if live.Code != 200 || !strings.Contains(live.Body.String(), "unreachable for 3m12s") {
		t.Errorf("%d %s", live.Code, live.Body)
	}
	if ready.Code != 503 || !strings.Contains(ready.Body.String(), "unreachable for 3m12s: connection refused") {
		t.Errorf("%d %s", ready.Code, ready.Body)
	}
}
