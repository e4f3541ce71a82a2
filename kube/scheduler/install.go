package scheduler

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Install gives User the rights that Run needs, and no more, with administrator rights.
func Install(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install: %w", err)
	}
	rbac := client.RbacV1()
	for _, step := range []func() error{
		func() error {
			return apply(ctx, rbac.ClusterRoles().Create, rbac.ClusterRoles().Update, &rbacv1.ClusterRole{ObjectMeta: named("", User), Rules: clusterRules})
		},
		func() error {
			return apply(ctx, rbac.ClusterRoleBindings().Create, rbac.ClusterRoleBindings().Update, &rbacv1.ClusterRoleBinding{
				ObjectMeta: named("", User), Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: User},
			})
		},
		func() error {
			roles := rbac.Roles(leaseNamespace)
			return apply(ctx, roles.Create, roles.Update, &rbacv1.Role{ObjectMeta: named(leaseNamespace, User), Rules: leaseRules})
		},
		func() error {
			bindings := rbac.RoleBindings(leaseNamespace)
			return apply(ctx, bindings.Create, bindings.Update, &rbacv1.RoleBinding{
				ObjectMeta: named(leaseNamespace, User), Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: User},
			})
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("scheduler: install: %w", err)
		}
	}
	return nil
}

// apply makes the object what it should be, whether or not it is there.
func apply[T any](ctx context.Context, create func(context.Context, T, metav1.CreateOptions) (T, error), update func(context.Context, T, metav1.UpdateOptions) (T, error), object T) error {
	_, err := create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = update(ctx, object, metav1.UpdateOptions{})
	}
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
