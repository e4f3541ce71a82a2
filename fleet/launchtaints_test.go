package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestRegisterTaints(t *testing.T) {
	got := registerTaints("karpenter.sh/unregistered:NoExecute, team=x:NoSchedule,bad,:NoSchedule,a b:NoSchedule,x:Never,team=y:NoSchedule")
	want := []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}, {Key: "team", Value: "y", Effect: corev1.TaintEffectNoSchedule}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzRegisterTaints(f *testing.F) {
	f.Add("a=b:NoSchedule,c:NoExecute")
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range registerTaints(text) {
			if x.Key == "" || x.Effect == "" {
				t.Errorf("%q became %+v", text, x)
			}
		}
	})
}
