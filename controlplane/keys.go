package controlplane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/controlplane/home"
)

// keys is the folder of a cluster's secrets: its authority, the certificates it issued, the
// key that signs service account tokens, and the bearer tokens of the components. It is
// made once, under another name, and renamed: there is no half-made set.
type keys struct{ dir string }

func (k keys) file(name string) string { return filepath.Join(k.dir, name) }

// The certificates, by file name. Clients of the API server use tokens, which cost it
// less CPU than client certificates; certificates are for the two servers and for
// the API server when it calls the kubelets or an aggregated API.
var certificates = []struct {
	name, cn string
	server   bool
}{
	{"apiserver", "kube-apiserver", true},
	{"kubelet", "berth-kubelet", true},
	{"kubelet-client", KubeletClientName, false},
	{"front-proxy", frontProxyName, false},
}

// KubeletClientName is the common name with which the API server calls kubelets, and frontProxyName that with which it hands
// on requests to aggregated APIs.
const (
	KubeletClientName = "kube-apiserver-kubelet-client"
	frontProxyName    = "front-proxy"
)

// The components that call the API server, and the groups they are in.
var identities = []struct{ name, user, groups string }{
	{"admin", "berth-admin", "system:masters"},
	{"controller-manager", "system:kube-controller-manager", ""},
	{"scheduler", "system:kube-scheduler", ""},
	{"fleet", "system:berth:fleet", ""},
	{"berth-scheduler", "system:berth:scheduler", ""},
	{"operators", "system:berth:operators", ""},
}

const validFor = 10 * 365 * 24 * time.Hour

// loadKeys opens the folder's keys, making them on first use.
func loadKeys(d home.Dir) (keys, error) {
	k := keys{dir: d.Keys()}
	if _, err := os.Stat(k.dir); err == nil {
		return k, k.makeTokens()
	}
	tmp := keys{dir: d.Keys() + ".new"}
	if err := os.RemoveAll(tmp.dir); err != nil {
		return k, err
	}
	if err := os.MkdirAll(tmp.dir, 0o700); err != nil {
		return k, err
	}
	if err := tmp.make(); err != nil {
		return k, fmt.Errorf("make keys: %w", err)
	}
	if err := os.Rename(tmp.dir, k.dir); err != nil {
		return k, err
	}
	return k, home.SyncDir(d.Path)
}

func (k keys) make() error {
	ca, caKey, err := k.makeAuthority()
	if err != nil {
		return err
	}
	for _, c := range certificates {
		if err := k.issue(ca, caKey, c.name, c.cn, c.server); err != nil {
			return fmt.Errorf("certificate %s: %w", c.name, err)
		}
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return errors.Join(k.writeKey("service-account", signer), k.makeTokens())
}

func (k keys) makeAuthority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template("berth-ca")
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return ca, key, errors.Join(k.writeCertificate("ca", der), k.writeKey("ca", key))
}

func (k keys) issue(ca *x509.Certificate, caKey *ecdsa.PrivateKey, name, cn string, server bool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := template(cn)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if server {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		t.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
		t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1), net.IPv6loopback}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	return errors.Join(k.writeCertificate(name, der), k.writeKey(name, key))
}

func template(cn string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system has no randomness
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: cn},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validFor),
	}
}

func (k keys) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return k.writePEM(name+".key", "EC PRIVATE KEY", der)
}

func (k keys) writeCertificate(name string, der []byte) error {
	return k.writePEM(name+".crt", "CERTIFICATE", der)
}

func (k keys) writePEM(file, kind string, der []byte) error {
	return home.WriteFile(k.file(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// makeTokens writes the API server's static token file and each component's own copy. A token that is
// there stays; a folder of an older Berth gets those of components that came since.
func (k keys) makeTokens() error {
	var all bytes.Buffer
	for _, id := range identities {
		token, err := k.token(id.name)
		if errors.Is(err, fs.ErrNotExist) {
			token = rand.Text() + rand.Text()
			err = home.WriteFile(k.file(id.name+".token"), []byte(token))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s,%s,%s,%q\n", token, id.user, id.user, id.groups)
	}
	return home.WriteFile(k.file("tokens.csv"), all.Bytes())
}

func (k keys) token(name string) (string, error) {
	b, err := os.ReadFile(k.file(name + ".token"))
	return string(b), err
}

// KubeletTLS is what the fleet's kubelets serve with, and the authority that signed the
// one client they answer.
type KubeletTLS struct {
	Certificate    tls.Certificate
	ClientCAs      *x509.CertPool
	ClientName     string
	AggregatorName string
}

func (k keys) kubeletTLS() (KubeletTLS, error) {
	cert, err := tls.LoadX509KeyPair(k.file("kubelet.crt"), k.file("kubelet.key"))
	if err != nil {
		return KubeletTLS{}, err
	}
	ca, err := os.ReadFile(k.file("ca.crt"))
	if err != nil {
		return KubeletTLS{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return KubeletTLS{}, fmt.Errorf("%s holds no certificate", k.file("ca.crt"))
	}
	return KubeletTLS{Certificate: cert, ClientCAs: pool, ClientName: KubeletClientName, AggregatorName: frontProxyName}, nil
}
