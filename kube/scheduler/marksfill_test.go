package scheduler

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// An empty secret is filled by whoever is first, and the one who comes second takes what is there.
func TestAnEmptySecretOfMarksIsFilledOnce(t *testing.T) {
	ctx, empty := context.Background(), &corev1.Secret{ObjectMeta: named(leaseNamespace, marksName)}
	client := fake.NewClientset(empty)
	first, err := fillMarks(ctx, client, empty)
	if err != nil || len(first.Data[marksKey]) != marksSize {
		t.Fatalf("%v, %d bytes", err, len(first.Data[marksKey]))
	}
	client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, marksName, nil)
	})
	second, err := fillMarks(ctx, client, empty)
	if err != nil || !bytes.Equal(first.Data[marksKey], second.Data[marksKey]) {
		t.Errorf("%v: the second has another secret", err)
	}
	have, err := client.CoreV1().Secrets(leaseNamespace).Get(ctx, marksName, metav1.GetOptions{})
	if err != nil || !bytes.Equal(first.Data[marksKey], have.Data[marksKey]) {
		t.Errorf("%v: the secret was replaced", err)
	}
}

// Rights are given once each: a rule that is there twice cannot be taken away.
func TestNoRightIsGivenTwice(t *testing.T) {
	type right struct{ group, resource, name, verb string }
	seen := map[right]bool{}
	for _, rule := range append(ClusterRules(), NamespaceRules()...) {
		names := rule.ResourceNames
		if names == nil {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						r := right{group, resource, name, verb}
						if seen[r] {
							t.Errorf("%+v is given twice", r)
						}
						if seen[r] = true; verb == "*" || resource == "*" || group == "*" {
							t.Errorf("%+v is more than is needed", r)
						}
					}
				}
			}
		}
	}
}
