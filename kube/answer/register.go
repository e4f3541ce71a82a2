package answer

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// How the API server finds whoever leads: an APIService of this name that points at one of two Services.
const (
	APIServiceName   = Version + "." + Group
	ServiceNamespace = "kube-system"
	// ClusterService selects nothing: the leader writes its own address into the EndpointSlice of the same name.
	ClusterService = "berth-scheduler"
	// LocalService is where the scheduler runs on the API server's own machine. An EndpointSlice may not hold a
	// loopback address, so it is a name for localhost, and the port is in the APIService: the leader's own.
	LocalService = "berth-scheduler-local"
)

var (
	apiServices    = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// InstallLocal makes the API server hand questions on to a scheduler on a port of its own machine, once that announces
// itself. It needs administrator rights.
func InstallLocal(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, port int) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: ServiceNamespace, Name: LocalService, Labels: managed()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := client.CoreV1().Services(ServiceNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install service %s: %w", LocalService, err)
	}
	_, err := objects.Resource(apiServices).Create(ctx, apiService(LocalService, port), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install API service %s: %w", APIServiceName, err)
	}
	return nil
}

// Retire has the API server forget the answers, which nobody gives any more: one that it cannot reach makes its
// discovery incomplete, and that holds up the deletion of namespaces.
func Retire(ctx context.Context, objects dynamic.Interface) error {
	err := objects.Resource(apiServices).Delete(ctx, APIServiceName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove API service %s: %w", APIServiceName, err)
	}
	return nil
}

func managed() map[string]string { return map[string]string{"app.kubernetes.io/managed-by": "berth"} }

// apiService comes after all others of the same names: `kubectl get queues` means the objects that people write.
func apiService(service string, port int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"spec": map[string]any{
			"group": Group, "version": Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
			"service": map[string]any{"namespace": ServiceNamespace, "name": service, "port": int64(port)},
		},
	}}
	o.SetName(APIServiceName)
	o.SetLabels(managed())
	return o
}

// announceEvery is how often whoever leads looks whether the API server still has its certificate.
const announceEvery = time.Minute

// Announce tells the API server, until ctx ends, which certificate to expect and, on its own machine, which port.
func (s *Server) Announce(ctx context.Context, objects dynamic.Interface, port int) {
	wait, said := 100*time.Millisecond, ""
	for {
		err := s.announce(ctx, objects, port)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait, said = announceEvery, ""
		default:
			wait = min(2*wait, announceEvery)
			if said != err.Error() {
				said = err.Error()
				s.log.Warn("answers are not to be had through the API server", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// announce changes the APIService if it is not as it must be.
func (s *Server) announce(ctx context.Context, objects dynamic.Interface, port int) error {
	have, err := objects.Resource(apiServices).Get(ctx, APIServiceName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read API service %s: %w", APIServiceName, err)
	}
	spec, _, err := unstructured.NestedMap(have.Object, "spec")
	service, ok := spec["service"].(map[string]any)
	if err != nil || !ok {
		return fmt.Errorf("API service %s names no service", APIServiceName)
	}
	trusted, err := s.certificates.bundle(time.Now())
	if err != nil {
		return err
	}
	bundle := base64.StdEncoding.EncodeToString(trusted)
	moved := service["name"] == LocalService && service["port"] != int64(port)
	if service["name"] == ClusterService {
		if err := s.answerHere(ctx, objects, port); err != nil {
			return err
		}
	}
	if spec["caBundle"] == bundle && !moved {
		return nil
	}
	spec["caBundle"] = bundle
	if moved {
		service["port"] = int64(port)
	}
	have.Object["spec"] = spec
	if _, err := objects.Resource(apiServices).Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write API service %s: %w", APIServiceName, err)
	}
	return nil
}
