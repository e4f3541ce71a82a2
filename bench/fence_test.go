package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// BenchmarkFenceLag is how long after a lease has changed hands the API server still takes a Binding of who held it before:
// the policy berth-leader reads the Lease from a cache. The Lease is one of the benchmark's own, the Bindings are dry runs.
func BenchmarkFenceLag(b *testing.B) {
	c := newCluster(b)
	c.up("--fleet", "lab")
	client := c.client()
	f := newFenced(b, client)
	var lags []time.Duration
	taken := 0
	for b.Loop() {
		for range 200 {
			lag, n := f.change(b)
			lags = append(lags, lag)
			taken += n
		}
	}
	slices.Sort(lags)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(lags[len(lags)/2]), "ms/median")
	b.ReportMetric(ms(lags[len(lags)*99/100]), "ms/p99")
	b.ReportMetric(ms(lags[len(lags)-1]), "ms/most")
	b.ReportMetric(float64(taken)/float64(len(lags)), "taken/change")
	b.ReportMetric(0, "ns/op")
}

// fenced is a lease that changes hands, and the policy's binding to it.
type fenced struct {
	client kubernetes.Interface
	lease  *coordinationv1.Lease
	number int32
}

func newFenced(b *testing.B, client kubernetes.Interface) *fenced {
	ctx := context.Background()
	const name = "lag-scheduler"
	holder, transitions := "holder-0", int32(0)
	lease, err := client.CoordinationV1().Leases("kube-system").Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	allow := admissionv1.AllowAction
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "berth-leader", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			ParamRef: &admissionv1.ParamRef{Namespace: "kube-system", Name: name, ParameterNotFoundAction: &allow},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	_, err = client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "unbound"},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "registry.example/pause:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f := &fenced{client: client, lease: lease}
	for end := time.Now().Add(30 * time.Second); !apierrors.IsForbidden(f.bind(b, "stranger", 0)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("the policy does not take effect")
		}
	}
	if err := f.bind(b, "holder-0", 0); err != nil {
		b.Fatal(err)
	}
	return f
}

// bind sends a Binding of the holder and returns the answer.
func (f *fenced) bind(b *testing.B, holder string, transitions int32) error {
	err := f.client.CoreV1().Pods("default").Bind(context.Background(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "unbound", Annotations: map[string]string{"berth.dev/lease": fmt.Sprintf("%s/%s/%d/%s", f.lease.Name, f.lease.UID, transitions, holder)}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsForbidden(err) {
		b.Fatal(err)
	}
	return err
}

// change gives the lease to another. It returns how long Bindings of the last one are taken after that, and how many were.
func (f *fenced) change(b *testing.B) (lag time.Duration, taken int) {
	old, was := fmt.Sprint("holder-", f.number), f.number
	f.number++
	holder := fmt.Sprint("holder-", f.number)
	f.lease.Spec.HolderIdentity, f.lease.Spec.LeaseTransitions = &holder, &f.number
	lease, err := f.client.CoordinationV1().Leases("kube-system").Update(context.Background(), f.lease, metav1.UpdateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f.lease = lease
	answered := time.Now()
	if err := f.bind(b, holder, f.number); err != nil {
		b.Fatalf("the new holder's binding is rejected: %v", err)
	}
	for f.bind(b, old, was) == nil {
		lag = time.Since(answered)
		taken++
	}
	return lag, taken
}
