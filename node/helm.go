package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const release = "berth"

// runHelm runs Helm itself, as people do.
func (s *scene) runHelm(args ...string) ([]byte, error) {
	cmd := exec.Command(filepath.Join(s.tools, "helm"), append(args, "--namespace", metav1.NamespaceSystem, "--kubeconfig", filepath.Join(s.dir, "data", "kubeconfig"))...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir) // its caches
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

func (s *scene) helmInstall() error {
	_, err := s.runHelm("install", release, s.options.chart, "--set", "image="+schedulerImage)
	return err
}

// helm installs the chart, upgrades it with work in flight, kills the leader, goes back to the version before and removes it.
// Nothing is lost, and nobody is evicted.
func (s *scene) helm(ctx context.Context) error {
	if err := s.rendered(); err != nil {
		return err
	}
	held, err := s.gang(ctx, heldSize, heldFor, onNode)
	if err != nil {
		return err
	}
	if err := s.running(ctx, held, heldSize); err != nil {
		return err
	}
	before := s.members(held)
	account, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, "berth-scheduler", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		args []string
	}{
		{"upgraded", []string{"upgrade", release, s.options.chart, "--set", "image=" + schedulerImage, "--set", "memory=256Mi"}},
		{"rolled back", []string{"rollback", release, "1"}},
	} {
		gap, err := s.underLoad(ctx, func() error {
			if _, err := s.runHelm(step.args...); err != nil {
				return err
			}
			return s.rolledOut(ctx)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		s.say("%s under load: no pod waited longer than %.1f s for its node", step.what, gap.Seconds())
		if err := errors.Join(s.unchanged(held, before), s.eyes.rest(ctx)); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		if step.what == "upgraded" {
			if err := s.leaderDies(ctx, held); err != nil {
				return err
			}
		}
	}
	again, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Get(ctx, account.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if again.UID != account.UID {
		return errors.New("the ServiceAccount was made anew: tokens are void")
	}
	return s.removed(ctx, held, before)
}

// removed takes Berth away: what runs runs on, what waits waits, and the kinds with their objects stay. Installed again, it goes on.
func (s *scene) removed(ctx context.Context, held string, before []string) error {
	if _, err := s.runHelm("uninstall", release); err != nil {
		return err
	}
	waiting, err := s.gang(ctx, 1, 300*time.Millisecond, onNode)
	if err != nil {
		return err
	}
	if err := s.until("the schedulers to end", time.Minute, func() (bool, error) {
		pods, err := s.client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: schedulerLabel})
		return err == nil && len(pods.Items) == 0, err
	}); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	if err := s.unchanged(held, before); err != nil {
		return err
	}
	for _, p := range s.eyes.gangs()[waiting] {
		if p.Spec.NodeName != "" {
			return fmt.Errorf("%s was bound, by nobody", p.Name)
		}
	}
	if _, err := s.command("kubectl", "get", "crd", "berthqueues.berth.dev"); err != nil {
		return err
	}
	s.say("removed: %s runs on, what waits waits", held)
	if err := s.helmInstall(); err != nil {
		return err
	}
	if err := errors.Join(s.schedulers(ctx), s.complete(ctx, waiting), s.unchanged(held, before)); err != nil {
		return err
	}
	s.say("installed again: what waited has run")
	return s.eyes.rest(ctx)
}

// rolledOut waits until every scheduler is of the Deployment's present template.
func (s *scene) rolledOut(ctx context.Context) error {
	return s.until("the rolling update", 2*time.Minute, func() (bool, error) {
		d, err := s.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "berth-scheduler", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		n := *d.Spec.Replicas
		st := d.Status
		return st.ObservedGeneration == d.Generation && st.UpdatedReplicas == n && st.Replicas == n && st.ReadyReplicas == n,
			fmt.Errorf("%d of %d updated, %d ready, %d in all", st.UpdatedReplicas, n, st.ReadyReplicas, st.Replicas)
	})
}

// underLoad submits a pod every 200 ms while something is done, and returns the longest time from when a pod was there until it had
// a node. Simulated nodes take them: they start at once and do not queue behind the real one.
func (s *scene) underLoad(ctx context.Context, do func() error) (time.Duration, error) {
	load, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	first := s.gangs + 1
	go func() {
		for load.Err() == nil {
			if _, err := s.gang(ctx, 1, 100*time.Millisecond, beside); err != nil {
				failed <- err
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
		failed <- nil
	}()
	err := do()
	stop()
	if err := errors.Join(err, <-failed); err != nil {
		return 0, err
	}
	var names []string
	for i := first; i <= s.gangs; i++ {
		names = append(names, fmt.Sprintf("gang-%d", i))
	}
	if err := s.complete(ctx, names...); err != nil {
		return 0, err
	}
	return s.eyes.longestWait(names), nil
}

func beside(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"berth.test/simulated": "true"} }

// rendered compares the chart as Helm renders it with deploy/manifests, object by object.
func (s *scene) rendered() error {
	text, err := s.runHelm("template", release, s.options.chart)
	if err != nil {
		return err
	}
	var want []byte
	for _, name := range []string{"berth.yaml", "berth-1.36.yaml"} { // what Helm renders offline is for the Kubernetes that it was built with
		file, err := os.ReadFile(filepath.Join(s.options.chart, "..", "manifests", name))
		if err != nil {
			return err
		}
		want = append(want, file...)
	}
	got, err := documents(text)
	if err != nil {
		return err
	}
	expected, err := documents(want)
	if err != nil {
		return err
	}
	for key, object := range expected {
		if !reflect.DeepEqual(object, got[key]) {
			return fmt.Errorf("the chart as Helm renders it differs from deploy/manifests: %s", key)
		}
	}
	if len(got) != len(expected) {
		return fmt.Errorf("Helm renders %d objects; deploy/manifests has %d", len(got), len(expected))
	}
	s.say("Helm renders the %d objects of deploy/manifests", len(got))
	return nil
}

func documents(text []byte) (map[string]any, error) {
	out := map[string]any{}
	for _, d := range strings.Split("\n"+string(text), "\n---\n") {
		var o struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
		var all map[string]any
		if err := errors.Join(yaml.Unmarshal([]byte(d), &o), yaml.Unmarshal([]byte(d), &all)); err != nil {
			return nil, err
		}
		if len(all) > 0 {
			out[o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name] = all
		}
	}
	return out, nil
}
