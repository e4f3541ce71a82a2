package answer

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/selfsigned"
)

const (
	// certificateLife is how long a serving certificate holds, and renewBefore how long before its end the next is made.
	certificateLife = 90 * 24 * time.Hour
	renewBefore     = 30 * 24 * time.Hour
	// announceFor is how long the next one is announced beside the one in use before it is used: Announce looks every minute.
	announceFor = 10 * announceEvery
)

// certificates are those that a server shows, one after the other, each with a key that lives in this process alone:
//
//	made, announced --announceFor--> shown --certificateLife - renewBefore--> the next is made, and both are announced
//
// So whoever was told the bundle less than announceFor ago trusts what is shown.
type certificates struct {
	mu    sync.Mutex
	shown certificate
	next  *certificate // that is announced and not shown yet; nil: none
}

type certificate struct {
	pair *tls.Certificate
	pem  []byte
	made time.Time
}

func newCertificates(now time.Time) (*certificates, error) {
	first, err := newCertificate(now)
	return &certificates{shown: first}, err
}

func newCertificate(now time.Time) (c certificate, err error) {
	names := []string{ClusterService + "." + ServiceNamespace + ".svc", LocalService + "." + ServiceNamespace + ".svc", "localhost"}
	c.made = now
	c.pair, c.pem, err = selfsigned.NewFor(certificateLife, now, names, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	return c, err
}

// renew makes the next certificate, or shows it, if it is time. It is called under mu.
func (c *certificates) renew(now time.Time) error {
	if c.next == nil && now.Sub(c.shown.made) >= certificateLife-renewBefore {
		next, err := newCertificate(now)
		if err != nil {
			return err
		}
		c.next = &next
	}
	if c.next != nil && now.Sub(c.next.made) >= announceFor {
		c.shown, c.next = *c.next, nil
	}
	return nil
}

// get is the certificate to show.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.renew(time.Now())
	return c.shown.pair, err
}

// bundle is what is to be trusted, in PEM.
func (c *certificates) bundle(now time.Time) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.renew(now); err != nil {
		return nil, err
	}
	if c.next == nil {
		return c.shown.pem, nil
	}
	return slices.Concat(c.shown.pem, c.next.pem), nil
}
