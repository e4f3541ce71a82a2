package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Parts of GPUs count in what queues are promised: 700 and 600 thousandths are more than one GPU.
func TestWarningsCountPartsOfGPUs(t *testing.T) {
	config, _ := api.Config{}.Normal()
	gpus := func(whole, milli int64) api.Resources {
		return api.Resources{{Resource: "nvidia.com/gpu", Value: whole, Milli: milli}}
	}
	for _, c := range []struct {
		name     string
		org      api.Resources
		of       []api.Resources
		warnings []string
	}{
		{"as much as it has", gpus(1, 300), []api.Resources{gpus(0, 700), gpus(0, 600)}, nil},
		{"more by a part", gpus(1, 0), []api.Resources{gpus(0, 700), gpus(0, 600)}, []string{"the queues below it are promised 1.3 of nvidia.com/gpu, and it has 1"}},
		{"it has a part", gpus(1, 500), []api.Resources{gpus(1, 0), gpus(1, 0)}, []string{"the queues below it are promised 2 of nvidia.com/gpu, and it has 1.5"}},
	} {
		m := NewModel(config)
		m.Apply(&api.Change{Queue: &api.Queue{Name: "org", Version: 1, Quota: c.org}})
		for i, quota := range c.of {
			m.Apply(&api.Change{Queue: &api.Queue{Name: string(rune('a' + i)), Version: 1, Parent: "org", Quota: quota}})
		}
		var got []string
		for _, w := range m.Warnings() {
			got = append(got, w.Reason)
		}
		if diff := cmp.Diff(c.warnings, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
