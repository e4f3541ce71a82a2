package kubelet

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/workload"
)

// refusal is why the runtime cannot start the instance, in its words; "": it can. A container that
// holds GPUs is refused by NVIDIA's hook when the driver is gone or too old for the image, and any container
// whose program is not in its image by runc.
func (p *process) refusal(m *Machine) string {
	if why := p.hookRefusal(m); why != "" {
		return why
	}
	if why := p.absent(); why != "" {
		return createError + "exec: " + strconv.Quote(p.argv[0]) + ": " + why
	}
	return ""
}

func (p *process) hookRefusal(m *Machine) string {
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

// createError is what containerd says before the reason.
const createError = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: " +
	"unable to start container process: error during container init: "

func hookError(why string) string {
	return createError + "error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: " + why
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

// absent is why the runtime does not find the container's program in its image; "": it does, or nobody can tell, as of
// an image that is not known. A program whose conduct the pod's annotations describe is taken to be there.
func (p *process) absent() string {
	if len(p.argv) == 0 || p.role != "" || !p.mayBeShell() || p.isShell() {
		return ""
	}
	program := p.argv[0]
	if p.inside().Forbidden(program) {
		return "permission denied"
	}
	driver := strings.HasPrefix(path.Base(program), "nvidia-") // put there by NVIDIA's hook, with a GPU
	switch {
	case !driver && (p.described() || !conductOf(p.image).known()):
		return ""
	case strings.Contains(program, "/"):
		return "stat " + program + ": no such file or directory"
	}
	return "executable file not found in $PATH"
}

// described says whether annotations on the pod tell what the container's program does.
func (p *process) described() bool {
	if !p.steered() {
		return false
	}
	for key := range p.c.w.current().Annotations {
		if workload.Steers(key) {
			return true
		}
	}
	return false
}
