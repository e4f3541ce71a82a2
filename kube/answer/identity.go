package answer

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// errNobody is a caller who did not show who they are.
var errNobody = errors.New("show a token, or come through the API server")

// identify says who asks: the API server, by its certificate, for the user that its headers name; else whoever the
// bearer token is of.
func (s *Server) identify(r *http.Request) (authenticationv1.UserInfo, error) {
	if user, ok := r.Context().Value(viewerKey{}).(authenticationv1.UserInfo); ok {
		return user, nil // a page of this process asks for them
	}
	if user, ok := s.proxies.user(r); ok {
		return user, nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == "" {
		return authenticationv1.UserInfo{}, errNobody
	}
	return s.reviews.token(r.Context(), token)
}

// frontProxies knows by which certificates an API server proves itself, and which headers it then speaks in.
type frontProxies struct {
	client kubernetes.Interface

	mu    sync.RWMutex
	trust trust
}

// trust is what kube-system/extension-apiserver-authentication says. The zero value trusts nobody.
type trust struct {
	roots                   *x509.CertPool
	names                   []string // common names; empty: any that the roots vouch for
	user, uid, group, extra []string // header names; the last are prefixes
}

// TrustName is of the ConfigMap, in ServiceNamespace, in which an API server writes how it proves itself to those
// that it hands requests on to.
const TrustName = "extension-apiserver-authentication"

// reload takes in what the API server says now. On error what was known stays.
func (p *frontProxies) reload(ctx context.Context) error {
	m, err := p.client.CoreV1().ConfigMaps(ServiceNamespace).Get(ctx, TrustName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read how the API server proves itself: %w", err)
	}
	t, err := readTrust(m.Data)
	if err != nil {
		return fmt.Errorf("configmap %s/%s: %w", ServiceNamespace, TrustName, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust = t
	return nil
}

// keep reloads until ctx ends, so that a CA that is replaced is followed.
func (p *frontProxies) keep(ctx context.Context, failed func(error)) {
	wait := time.Second
	for {
		if err := p.reload(ctx); err != nil && ctx.Err() == nil {
			failed(err)
			wait = min(2*wait, time.Minute)
		} else {
			wait = time.Minute
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func readTrust(data map[string]string) (t trust, err error) {
	pem := data["requestheader-client-ca-file"]
	if pem == "" {
		return trust{}, nil // this API server hands nothing on
	}
	t.roots = x509.NewCertPool()
	if !t.roots.AppendCertsFromPEM([]byte(pem)) {
		return trust{}, errors.New("requestheader-client-ca-file holds no certificate")
	}
	for key, list := range map[string]*[]string{
		"requestheader-allowed-names": &t.names, "requestheader-username-headers": &t.user, "requestheader-uid-headers": &t.uid,
		"requestheader-group-headers": &t.group, "requestheader-extra-headers-prefix": &t.extra,
	} {
		if text := data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				return trust{}, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return t, nil
}

// user is whom the API server asks for; ok is false for a request that is not from it.
func (p *frontProxies) user(r *http.Request) (user authenticationv1.UserInfo, ok bool) {
	p.mu.RLock()
	t := p.trust
	p.mu.RUnlock()
	if r.TLS == nil || !t.vouches(r.TLS.PeerCertificates) {
		return user, false
	}
	user = authenticationv1.UserInfo{Username: first(r.Header, t.user), UID: first(r.Header, t.uid), Extra: t.extras(r.Header)}
	for _, name := range t.group {
		user.Groups = append(user.Groups, r.Header.Values(name)...)
	}
	return user, user.Username != ""
}

// vouches says whether the certificate is an API server's.
func (t trust) vouches(chain []*x509.Certificate) bool {
	if t.roots == nil || len(chain) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil && (len(t.names) == 0 || slices.Contains(t.names, chain[0].Subject.CommonName))
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// extras are the headers of a prefix, by what follows it: lower case, with escapes undone.
func (t trust) extras(h http.Header) map[string]authenticationv1.ExtraValue {
	var out map[string]authenticationv1.ExtraValue
	for _, prefix := range t.extra {
		for name, values := range h {
			if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
				continue
			}
			key := strings.ToLower(name[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if out == nil {
				out = make(map[string]authenticationv1.ExtraValue)
			}
			out[key] = append(out[key], values...)
		}
	}
	return out
}
