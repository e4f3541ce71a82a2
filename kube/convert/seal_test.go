package convert

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// boundPod is a pod after a Binding.
func boundPod(uid, node string, b *corev1.Binding) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Annotations: maps.Clone(b.Annotations)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

// What was sealed for a pod is opened on it. Any other secret, pod or text is told apart, and nothing counts before the pod
// is bound.
func TestASealIsOfOneSecretPodAndText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ -~]{1,20}`)
		secret, uid, text := word.Draw(t, "secret"), word.Draw(t, "uid"), word.Draw(t, "text")
		s, b := NewSeal([]byte(secret)), new(corev1.Binding)
		s.Sign(b, types.UID(uid), text)
		bound := boundPod(uid, "n1", b)
		if got := s.Open(bound); got != text {
			t.Fatalf("%v opens as %q", b.Annotations, got)
		}
		if got := (*Seal)(nil).Open(bound); got != text {
			t.Fatalf("without the secret %v opens as %q", b.Annotations, got)
		}
		if s.Open(boundPod(uid, "", b)) != "" {
			t.Fatal("terms of a pod that is not bound are believed")
		}
		if other := word.Draw(t, "other secret"); other != secret && NewSeal([]byte(other)).Open(bound) != "" {
			t.Fatal("another secret opens it")
		}
		if other := word.Draw(t, "other uid"); other != uid && s.Open(boundPod(other, "n1", b)) != "" {
			t.Fatal("it counts on another pod")
		}
		key := rapid.SampledFrom([]string{v1alpha1.KeyTerms, v1alpha1.KeySeal}).Draw(t, "key")
		value := bound.Annotations[key]
		at, c := rapid.IntRange(0, len(value)-1).Draw(t, "at"), byte(rapid.IntRange(32, 126).Draw(t, "byte"))
		bound.Annotations[key] = value[:at] + string(c) + value[at+1:]
		if got := s.Open(bound); got != "" && value[at] != c {
			t.Fatalf("altered terms are believed: %q", got)
		}
		delete(bound.Annotations, key)
		if got := s.Open(bound); got != "" {
			t.Fatalf("without %s: %q", key, got)
		}
	})
}

// A record of any length that is written survives trimming, and what is longer is not kept.
func TestTrimKeepsSealedTerms(t *testing.T) {
	for n, kept := range map[int]bool{100: true, MaxPodBytes + 1: true, mostRecord: true, mostRecord + 1: false} {
		p := keyed(map[string]string{v1alpha1.KeyTerms: strings.Repeat("x", n)}, nil)
		Trim(p)
		if got := len(p.Annotations[v1alpha1.KeyTerms]); (got == n) != kept || !kept && got != 0 {
			t.Errorf("%d bytes: %d are kept", n, got)
		}
	}
}
