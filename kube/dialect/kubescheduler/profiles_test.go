package kubescheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		file string
		want []string
		ok   bool
	}{
		{"kind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: gang\n- plugins: {}\n", []string{"gang", "default-scheduler"}, true},
		{"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", []string{"default-scheduler"}, true},
		{`{"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "bin-packing"}]}`, []string{"bin-packing"}, true},
		{"actions: \"enqueue, allocate\"\ntiers: []\n", nil, false},
		{"# not a KubeSchedulerConfiguration\nkind: Other\n", nil, false},
		{"kind: KubeSchedulerConfiguration\nprofiles: 3", nil, false},
	} {
		got, ok := Profiles(c.file)
		if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
			t.Errorf("%q: %v, %s", c.file, ok, diff)
		}
	}
}

func FuzzProfiles(f *testing.F) {
	f.Add("kind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: gang\n")
	f.Fuzz(func(t *testing.T, file string) {
		if names, ok := Profiles(file); ok != (len(names) > 0) {
			t.Errorf("%q: %v, %v", file, names, ok)
		}
	})
}
