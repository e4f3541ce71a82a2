package kubelet

import (
	"fmt"
	"strings"
)

// refusal is why the runtime cannot start the instance, in its words; "": it can. A container that
// holds GPUs is refused by NVIDIA's hook when the driver is gone or too old for the image.
func (p *process) refusal(m *Machine) string {
	if len(p.gpus) == 0 {
		return ""
	}
	driver := m.Devices.Driver()
	if driver.Version == "" {
		return hookError("initialization error: nvml error: driver not loaded: unknown")
	}
	need := p.needsCUDA()
	if off := p.env["NVIDIA_DISABLE_REQUIRE"]; need == "" || off == "1" || strings.EqualFold(off, "true") || !olderVersion(driver.CUDA, need) {
		return ""
	}
	return hookError(fmt.Sprintf("requirement error: unsatisfied condition: cuda>=%s, please update your driver to a newer version, or use an earlier cuda container: unknown", need))
}

func hookError(why string) string {
	return "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: " +
		"unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , " +
		"stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: " + why
}

// needsCUDA is said by the pod's annotation, else by the variable that images carry, else by the tag.
func (p *process) needsCUDA() string {
	if v := p.c.w.spec.CUDA; v != "" {
		return v
	}
	if _, v, ok := strings.Cut(p.env["NVIDIA_REQUIRE_CUDA"], "cuda>="); ok {
		v, _, _ = strings.Cut(v, " ")
		return v
	}
	return p.image.needsCUDA()
}
