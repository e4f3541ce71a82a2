package l4

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var imagePullCheck = check.Check{
	Cause: "image-pull", Layer: check.L4, Owner: check.ML, Stage: check.Start, Rank: 30,
	Title:   "The image cannot be pulled",
	Meaning: "The pod has its node and its GPUs, and the node cannot get the container's image: there is none of that name, access is denied, or the registry does not answer.",
	Remedy:  "Correct the image's name or tag, give the pod a pull secret, or have the registry repaired.",
	Not:     "The cluster is full: the pod was placed. A large image that is still being pulled is no error either.",
	Find:    imagePull,
}

// longPull is how long even a very large image should take.
const longPull = 30 * time.Minute

func imagePull(c *check.Case) []check.Finding {
	if c.State != facts.Starting && c.State != facts.Running {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if w := k.Waits("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed"); w != nil {
			f := unpulled(c, &k, w)
			life.BlameInjector(c, &k, &f)
			return []check.Finding{f}
		}
	}
	if e := life.Pulling(c); e != nil && c.Now.Sub(facts.EventTime(e)) > longPull {
		return []check.Finding{{
			Message:  fmt.Sprintf("node %s has been pulling for %s (%s): the registry or its network is slow", c.Pod.Spec.NodeName, wording.Minutes(c.Now.Sub(facts.EventTime(e))), wording.FirstLine(e.Message)),
			Evidence: []facts.Evidence{life.Shown(e)}, Owner: check.Platform,
		}}
	}
	return nil
}

// unpulled words one container whose image does not come.
func unpulled(c *check.Case, k *life.Container, w *corev1.ContainerStateWaiting) check.Finding {
	text := w.Message
	var evidence []facts.Evidence
	for _, e := range c.EventsOf(c.Pod, "Failed", "InspectFailed") {
		if strings.Contains(e.Message, k.Image) {
			text += "\n" + e.Message
			evidence = append(evidence, life.Shown(e))
			break
		}
	}
	image, noun := k.Image, k.Noun()
	if v := imageVolume(c.Pod, k, w.Message); v != nil {
		image, noun = v.Image.Reference, fmt.Sprintf("volume %s of %s", v.Name, k.Noun())
		evidence = append(evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.volumes[%q].image.reference", v.Name), Value: image})
	}
	what, owner := pullFailure(w.Reason, text)
	if owner == check.ML && (what == denied || what == deniedOrNone) {
		if lost := c.EventsOf(c.Pod, "FailedToRetrieveImagePullSecret"); len(lost) > 0 {
			secret := lostSecrets(c, lost[0])
			owner, what = check.User, fmt.Sprintf("the registry denies access, and pull secret %s, which spec.imagePullSecrets names, is not in namespace %s", secret, c.Pod.Namespace)
			evidence = append(evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.imagePullSecrets", Value: secret})
		}
	}
	if owner == check.Platform && strings.Contains(text, "no such host") && !registryWorks(c, image) {
		what, owner = fmt.Sprintf("nobody knows a registry %s", registryOf(image)), check.ML
	}
	f := check.Finding{
		Message:  fmt.Sprintf("%s cannot have image %s: %s", noun, image, what),
		Evidence: append([]facts.Evidence{k.Said(c.Pod, w.Reason+": "+wording.Shortened(w.Message, 200))}, evidence...),
		Owner:    owner, Advice: pullAdvice[what],
	}
	if what == runtimeSilent {
		f.Layer = check.L2
	}
	if n := c.Pod.Spec.NodeName; owner == check.Platform && n != "" && strings.Contains(what, "node") {
		f.Message += fmt.Sprintf(" (node %s)", n)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.nodeName", Value: n})
	}
	if image != k.Image {
		return f
	}
	if what == otherPlatform {
		f.Message = fmt.Sprintf("%s cannot have image %s: %s", k.Noun(), k.Image, wrongMachine(c))
		f.Edits = otherMachines(c)
	}
	if w.Reason == "ErrImageNeverPull" {
		f.Edits = []edit.Edit{{Side: edit.Workload, Text: fmt.Sprintf("let %s pull its image where a node lacks it: imagePullPolicy IfNotPresent", k.Noun()), Cost: 2,
			Ops: []edit.Op{{Op: "replace", Path: k.Path("imagePullPolicy"), Value: "IfNotPresent"}}, Assumes: fmt.Sprintf("image %s is in its registry", k.Image)}}
	}
	if other, user := otherTag(c, k.Image); owner == check.ML && other != "" {
		f.Edits = append(f.Edits, edit.Edit{Side: edit.Workload, Text: fmt.Sprintf("use image %s for %s, as pod %s does", other, k.Noun(), user), Cost: 2,
			Ops: []edit.Op{{Op: "replace", Path: k.Path("image"), Value: other}}, Assumes: "that version has the same program"})
	}
	return f
}

// imageVolume is the volume of the container that is an image, and that the message is about; nil: it is about the container's own.
func imageVolume(p *corev1.Pod, k *life.Container, message string) *corev1.Volume {
	if strings.Contains(message, strconv.Quote(k.Image)) {
		return nil
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Image != nil && strings.Contains(message, strconv.Quote(v.Image.Reference)) && slices.ContainsFunc(k.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			return v
		}
	}
	return nil
}

// lostSecrets names the pull secrets of the pod, of which the kubelet did not find some. Its own words, which bundles mask, tell
// which of several.
func lostSecrets(c *check.Case, e *corev1.Event) string {
	var all, lost []string
	for _, s := range c.Pod.Spec.ImagePullSecrets {
		all = append(all, s.Name)
		if strings.Contains(e.Message, s.Name) {
			lost = append(lost, s.Name)
		}
	}
	if len(lost) == 0 {
		lost = all
	}
	return strings.Join(lost, ", ")
}

// registryWorks says whether any pod got an image from the same registry.
func registryWorks(c *check.Case, image string) bool {
	return slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(life.ContainersOf(p), func(k life.Container) bool {
			return k.Status.ImageID != "" && registryOf(k.Image) == registryOf(image)
		})
	})
}

// otherTag is another version of the image that a pod of the namespace got, and that pod.
func otherTag(c *check.Case, image string) (other, user string) {
	for _, p := range c.Pods {
		if p.Namespace != c.Pod.Namespace {
			continue
		}
		for _, k := range life.ContainersOf(p) {
			if k.Status.ImageID != "" && k.Image != image && repositoryOf(k.Image) == repositoryOf(image) && (other == "" || p.Name < user) {
				other, user = k.Image, p.Name
			}
		}
	}
	return other, user
}
