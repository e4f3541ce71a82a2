package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/fleet/usage"
	"github.com/berth-dev/berth/internal/selfsigned"
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

// newMetricsCertificate makes a certificate for the Service's name.
func newMetricsCertificate(now time.Time) (*tls.Certificate, []byte, error) {
	return selfsigned.New(now, []string{metricsService + "." + metricsNamespace + ".svc"})
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
