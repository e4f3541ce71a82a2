package cli

import (
	"testing"

	"github.com/berth-dev/berth/diagnose/submit"
)

func TestGPUsAndParts(t *testing.T) {
	for want, w := range map[string]submit.Workload{
		"0":            {},
		"4":            {GPUs: 4},
		"2x0.5":        {GPUParts: []submit.GPUParts{{GPUs: 2, Thousandths: 500}}},
		"1+4x0.125":    {GPUs: 1, GPUParts: []submit.GPUParts{{GPUs: 4, Thousandths: 125}}},
		"2x3000Mi":     {GPUParts: []submit.GPUParts{{GPUs: 2, MemoryMiB: 3000}}},
		"1x1+2x3000Mi": {GPUParts: []submit.GPUParts{{GPUs: 1, Thousandths: 1000}, {GPUs: 2, MemoryMiB: 3000}}},
	} {
		if got := gpusText(&w); got != want {
			t.Errorf("%+v is %q, want %q", w, got, want)
		}
	}
}
