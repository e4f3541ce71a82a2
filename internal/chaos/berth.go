package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/scheduler"
)

// There are two Berths, each as foreign to the other as the stock scheduler. The first is in the cluster's
// process, with a stand-in outside; the second is two processes outside, of which one leads.
const (
	one = scheduler.DefaultName
	two = "berth-two"
)

// berthNames are those of the schedulers outside.
var berthNames = [...]string{one, two, two}

// gangGrace is how long a gang may run under its minimum before its scheduler lets it go.
const gangGrace = 15 * time.Second

// berth is a scheduler in a process of its own, behind a proxy of its own.
type berth struct {
	*process
	proxy     *proxy
	decisions string // the folder of its decision log
}

func (w *world) startBerths(ctx context.Context) error {
	if err := w.allowTwo(ctx); err != nil {
		return err
	}
	for i, name := range berthNames {
		b, err := w.newBerth(i, name)
		if err != nil {
			return err
		}
		w.berths = append(w.berths, b)
		w.children.Go(func() { b.run(ctx); b.proxy.close() })
	}
	return nil
}

func (w *world) newBerth(i int, name string) (*berth, error) {
	p, err := newProxy(w.config, w.opts.seed+uint64(i), w.tally.count)
	if err != nil {
		return nil, err
	}
	called := fmt.Sprintf("scheduler-%d", i)
	config := filepath.Join(w.opts.dir, called+".kubeconfig")
	if err := w.cluster.schedulerConfig(p, config); err != nil {
		return nil, err
	}
	decisions := filepath.Join(w.opts.dir, called+"-decisions")
	child, err := newProcess(w.opts.dir, called, w.died, w.opts.berth, "scheduler", "--kubeconfig", config,
		"--scheduler-name", name, "--gang-grace", gangGrace.String(), "--min-run-time", minRun.String(), "--record", decisions)
	if err != nil {
		return nil, err
	}
	return &berth{process: child, proxy: p, decisions: decisions}, nil
}

// allowTwo lets schedulers of the second name hold their lease: the cluster's own rules name only the first's.
func (w *world) allowTwo(ctx context.Context) error {
	const namespace, called = "kube-system", "chaos-leases"
	rbac := w.client.RbacV1()
	_, err := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: called},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			ResourceNames: []string{two + "-scheduler"}, Verbs: []string{"get", "update"},
		}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: called},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: scheduler.User}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: called},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
