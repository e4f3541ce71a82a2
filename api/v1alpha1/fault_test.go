package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestFaultRules gives faults to the API server's own validation.
func TestFaultRules(t *testing.T) {
	validate := serverValidation(t, v1alpha1.FaultCRD)
	for _, c := range []struct{ spec, refused string }{
		{"{type: node-down, node: a}", ""},
		{"{type: node-down, selector: {}}", ""},
		{"{type: xid, xid: 79, pool: h100, gpus: [0, 3]}", ""},
		{"{type: xid, xid: 79, pool: h100, count: 2, gpuCount: 1, seed: -7}", ""},
		{"{type: quarantine, node: a, condition: {type: AcceleratedHardwareReady, status: \"False\", reason: NvidiaXID79Error, cordon: false}}", ""},
		{"{type: ecc, pool: h100, after: 1m, every: 1h, for: 5m, probability: 20}", ""},
		{"{type: clock-skew, node: a, by: -90s}", ""},

		{"{type: node-down}", "say where"},
		{"{type: nodedown, node: a}", "Unsupported value"},
		{"{type: xid, node: a}", "xid is required"},
		{"{type: ecc, node: a, xid: 48}", "xid is required for type xid"},
		{"{type: xid, node: a, xid: 0}", "greater than or equal to 1"},
		{"{type: node-down, node: a, gpus: [0]}", "whole nodes"},
		{"{type: ecc, node: a, gpus: [0], gpuCount: 1}", "gpuCount draws"},
		{"{type: ecc, node: a, every: 1h}", "every needs for"},
		{"{type: ecc, node: a, every: 1m, for: 2m}", "longer than for"},
		{"{type: ecc, node: a, for: 1m, probability: 50}", "probability needs every"},
		{"{type: ecc, node: a, for: -1m}", "from 1s"},
		{"{type: ecc, node: a, for: soon}", "Duration"},
		{"{type: quarantine, node: a, condition: {type: Ready, status: \"False\"}}", "kubelet's own"},
		{"{type: node-down, node: a, taint: x/y}", "taint is for"},
		{"{type: startup-taint-stays, node: a, taint: a b}", "taint"},
		{"{type: node-down, node: a, by: 1m}", "by is for"},
	} {
		errs := validate(parse(t, "apiVersion: berth.dev/v1alpha1\nkind: Fault\nmetadata: {name: f}\nspec: "+c.spec))
		text := ""
		if len(errs) > 0 {
			text = errs.ToAggregate().Error()
		}
		if c.refused == "" && text != "" || c.refused != "" && !strings.Contains(text, c.refused) {
			t.Errorf("%s: %q, want %q", c.spec, text, c.refused)
		}
	}
}
