package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A refusal is explained by an outage that it falls into, and for a moment after.
func TestRefusalsAreExplainedByOutagesAlone(t *testing.T) {
	at := time.Unix(1000, 0)
	o := &observer{outages: []outage{{from: at, to: at.Add(time.Second)}, {from: at.Add(time.Minute)}}}
	for offset, want := range map[time.Duration]bool{
		-time.Second: false, time.Millisecond: true, time.Second + settle - 1: true, time.Second + settle: false, time.Hour: true,
	} {
		if got := o.explained(at.Add(offset)); got != want {
			t.Errorf("%v after: explained is %v, want %v", offset, got, want)
		}
	}
}

func member(name string, phase corev1.PodPhase, reason string, code int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{resourceName: resource.MustParse("1")}}}}},
		Status:     corev1.PodStatus{Phase: phase, Reason: reason, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}}},
	}
}

// A device that is given twice, and a refusal while all is well, are findings; an end is counted once.
func TestObserverFinds(t *testing.T) {
	o := &observer{pods: map[string]*corev1.Pod{}, refused: map[string]refusal{}, waits: map[string]time.Duration{}, seen: map[string]time.Time{}}
	for range 2 {
		o.saw(member("ends", corev1.PodSucceeded, "", 0), false)
	}
	o.saw(member("twice", corev1.PodFailed, "", exitTwice), false)
	o.saw(member("refused", corev1.PodFailed, "UnexpectedAdmissionError", 0), false)
	o.breaks("plugin")
	o.saw(member("excused", corev1.PodFailed, "UnexpectedAdmissionError", 0), false)
	if o.lives != 4 || len(o.refused) != 2 || len(o.findings) != 2 {
		t.Errorf("%d lives, %d refused, findings %q", o.lives, len(o.refused), o.findings)
	}
}

func TestForwarderKnowsReadyEndpoints(t *testing.T) {
	f := &forwarder{api: "127.0.0.1:6443"}
	port := corev1.ServicePort{Name: "https", Port: 443}
	service := func(namespace, name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Labels: map[string]string{discoveryv1.LabelServiceName: "it"}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(10259))}, {Name: new("other"), Port: new(int32(1))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.231.0.2"}}, {Addresses: []string{"10.231.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
		},
	}
	if got, want := f.backends(service("kube-system", "it"), port, []discoveryv1.EndpointSlice{slice}), []string{"10.231.0.2:10259"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := f.backends(service("default", "kubernetes"), port, nil), []string{"127.0.0.1:6443"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What is not there is named.
func TestAbsentNamesWhatIsMissing(t *testing.T) {
	o := options{tools: t.TempDir(), berth: "/nowhere/berth", image: os.Args[0]}
	got := strings.Join(o.absent(), "\n")
	for _, want := range []string{"no kubelet in", "no runc in", "/nowhere/berth"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not named in %s", want, got)
		}
	}
}
