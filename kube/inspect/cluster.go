package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/diagnose/facts"
)

// cluster is an API server as the caller reaches it.
type cluster struct {
	host      string
	typed     map[schema.GroupVersion]rest.Interface // speak protobuf
	dynamic   dynamic.Interface
	discovery *discovery.DiscoveryClient
	time      *serverTime
}

// connect makes the clients; it sends nothing yet.
func connect(given *rest.Config) (*cluster, error) {
	c := &cluster{host: given.Host, typed: make(map[schema.GroupVersion]rest.Interface), time: &serverTime{}}
	base := rest.CopyConfig(given)
	base.QPS, base.RateLimiter = -1, nil // the server's own limits do better
	base.WarningHandler = rest.NoWarnings{}
	base.Wrap(func(next http.RoundTripper) http.RoundTripper { return timed{next, c.time} })
	if base.UserAgent == "" {
		base.UserAgent = "berth"
	}
	h, err := rest.HTTPClientFor(base)
	if err != nil {
		return nil, fmt.Errorf("configuration of the cluster: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(base, h); err != nil {
		return nil, fmt.Errorf("configuration of the cluster: %w", err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(base, h); err != nil {
		return nil, fmt.Errorf("configuration of the cluster: %w", err)
	}
	for _, k := range facts.Kinds {
		if gv := k.GroupVersion(); !k.Foreign && c.typed[gv] == nil {
			if c.typed[gv], err = typedClient(base, gv, h); err != nil {
				return nil, fmt.Errorf("configuration of the cluster: %w", err)
			}
		}
	}
	return c, nil
}

func typedClient(base *rest.Config, gv schema.GroupVersion, h *http.Client) (rest.Interface, error) {
	cfg := rest.CopyConfig(base)
	cfg.GroupVersion, cfg.APIPath = &gv, "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return rest.RESTClientForConfigAndClient(cfg, h)
}

// greet asks for the version. An API server that gives none is read all the same, as long as it answers.
func (c *cluster) greet(ctx context.Context, patience time.Duration) (version string, err error) {
	within, stop := context.WithTimeout(ctx, patience)
	defer stop()
	v, err := c.discovery.ServerVersionWithContext(within)
	switch {
	case err == nil:
		return v.GitVersion, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return "", ctx.Err()
	case isUnknown(err):
		return "", c.unknown()
	}
	if _, answered := err.(apierrors.APIStatus); answered {
		return "", nil
	}
	return "", fmt.Errorf("cannot reach the API server at %s: %s; check the address, and that the cluster runs", c.host, reason(err))
}

func (c *cluster) unknown() error {
	return fmt.Errorf("the API server at %s does not know who you are: log in again, or check the user in your kubeconfig", c.host)
}

// serverTime is the API server's clock, which all timestamps in its objects go by.
type serverTime struct {
	mu   sync.Mutex
	last time.Time
}

// timed reads the clock off every answer.
type timed struct {
	next http.RoundTripper
	time *serverTime
}

func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		if at, bad := http.ParseTime(resp.Header.Get("Date")); bad == nil {
			t.time.hear(at)
		}
	}
	return resp, err
}

func (s *serverTime) hear(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.last) {
		s.last = at
	}
}

// latest is what the API server last said, or our own clock where it says nothing.
func (s *serverTime) latest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.IsZero() {
		return time.Now().UTC()
	}
	return s.last.UTC()
}
