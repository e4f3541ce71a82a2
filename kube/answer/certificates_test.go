package answer

import (
	"bytes"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"
)

// For two years somebody connects every half hour who was told the bundle up to five minutes before: the certificate is always
// one that they trust and that holds, and several are used one after the other.
func TestCertificatesRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCertificates(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		rotated := 0
		for end := time.Now().Add(2 * 365 * 24 * time.Hour); time.Now().Before(end); time.Sleep(25 * time.Minute) {
			bundle, err := c.bundle(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			told := bytes.Clone(bundle)
			time.Sleep(5 * time.Minute)
			shown, err := c.get(nil)
			if err != nil {
				t.Fatal(err)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(told)
			_, err = shown.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: time.Now(), DNSName: ClusterService + "." + ServiceNamespace + ".svc"})
			if err != nil {
				t.Fatalf("at %s: %v", time.Now(), err)
			}
			if !bytes.Equal(last, shown.Certificate[0]) {
				last, rotated = shown.Certificate[0], rotated+1
			}
		}
		if rotated < 12 || rotated > 14 {
			t.Errorf("%d certificates in two years", rotated)
		}
	})
}

// A process that nobody asks for months, and that announces nothing, shows one that holds as soon as it is asked.
func TestCertificateAfterALongSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newCertificates(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * certificateLife)
		if _, err := c.bundle(time.Now()); err != nil { // as the first announcement does
			t.Fatal(err)
		}
		time.Sleep(announceFor)
		shown, err := c.get(nil)
		if err != nil || time.Now().After(shown.Leaf.NotAfter) {
			t.Errorf("one that ended at %s is shown: %v", shown.Leaf.NotAfter, err)
		}
	})
}
