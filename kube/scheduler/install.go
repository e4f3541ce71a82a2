package scheduler

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Install gives User the rights that Run needs, and no more, and has the API server send pods of labelled
// namespaces to Berth. It needs administrator rights.
func Install(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install: %w", err)
	}
	rbac := client.RbacV1()
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: User}
	}
	err = errors.Join(
		apply(ctx, rbac.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: named("", User), Rules: clusterRules}),
		apply(ctx, rbac.ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: named("", User), Subjects: subjects, RoleRef: role("ClusterRole")}),
		apply(ctx, rbac.Roles(leaseNamespace), &rbacv1.Role{ObjectMeta: named(leaseNamespace, User), Rules: leaseRules}),
		apply(ctx, rbac.RoleBindings(leaseNamespace), &rbacv1.RoleBinding{ObjectMeta: named(leaseNamespace, User), Subjects: subjects, RoleRef: role("Role")}),
		route(ctx, client),
	)
	if err != nil {
		return fmt.Errorf("scheduler: install: %w", err)
	}
	return nil
}

// store is where objects of one kind are kept.
type store[T metav1.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
}

// apply makes the object what it should be, whether or not it is there.
func apply[T metav1.Object](ctx context.Context, s store[T], object T) error {
	_, err := s.Create(ctx, object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := s.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.SetResourceVersion(old.GetResourceVersion())
	_, err = s.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "berth"}}
}

var subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}

var clusterRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "persistentvolumeclaims", "persistentvolumes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"podgroups"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"podgroups/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
}

var leaseRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{DefaultName + "-scheduler"}, Verbs: []string{"get", "update"}},
}
