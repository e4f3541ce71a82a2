package fleet

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
	"fmt"
	"log/slog"
	"math/big"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/fleet/usage"
)

// Where the API server finds metrics.k8s.io: as manifests/metrics-api.yaml says.
const (
	metricsService   = "berth-fleet-metrics"
	metricsNamespace = "kube-system"
	metricsPath      = "/apis/apiregistration.k8s.io/v1/apiservices/" + usage.Version + "." + usage.Group
)

// metricsAPI tells the API server where and under which certificate the fleet serves metrics.k8s.io.
type metricsAPI struct {
	client rest.Interface
	log    *slog.Logger
	bundle []byte // the certificate in PEM
}

// newMetricsCertificate makes a certificate for the Service's name that vouches for itself. It lives in memory alone.
func newMetricsCertificate(now time.Time) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	name := metricsService + "." + metricsNamespace + ".svc"
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("make a serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// announce tries until the API server knows, somebody else serves the API, or ctx ends.
func (m *metricsAPI) announce(ctx context.Context, port int32) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Minute) {
		err := m.tell(ctx, port)
		if err == nil || ctx.Err() != nil {
			return
		}
		m.log.Warn("metrics.k8s.io is not to be had through the API server", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// tell writes port and certificate into the APIService, unless it is gone or another's: users may install a metrics-server
// of their own.
func (m *metricsAPI) tell(ctx context.Context, port int32) error {
	text, err := m.client.Get().SetHeader("Accept", runtime.ContentTypeJSON).AbsPath(metricsPath).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil
	}
	var have struct {
		Spec struct {
			Service struct{ Name, Namespace string }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &have)
	}
	if err != nil {
		return fmt.Errorf("read API service: %w", err)
	}
	if s := have.Spec.Service; s.Name != metricsService || s.Namespace != metricsNamespace {
		return nil
	}
	change, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": m.bundle, "service": map[string]any{"port": port}}})
	if err != nil {
		return err
	}
	err = m.client.Patch(types.MergePatchType).AbsPath(metricsPath).Param("fieldManager", fieldManager).SetHeader("Accept", runtime.ContentTypeJSON).Body(change).Do(ctx).Error()
	return wrap(err, "write API service")
}
