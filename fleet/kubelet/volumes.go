package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/storage"
)

// volume makes one volume. The error is in the words of the event that a kubelet would record. A host
// path is an empty directory: nothing of the host is ever shown.
func (s *sources) volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*shell.Volume, error) {
	if !fromAPI(v) {
		return s.scratch(ctx, pod, v)
	}
	out := shell.NewVolume(0) // its size is that of objects; nobody can write to it
	var err error
	switch {
	case v.ConfigMap != nil:
		err = s.addConfigMap(ctx, out, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		err = s.addSecret(ctx, out, pod.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode)
	case v.DownwardAPI != nil:
		err = addDownward(out, pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil && isAccess(v.Projected):
		return s.access(ctx, pod.Namespace), nil
	case v.Projected != nil:
		err = s.addProjected(ctx, out, pod, v.Projected)
	}
	if err != nil {
		return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
	}
	return out, nil
}

// fromAPI says whether a volume's content comes from objects of the API.
func fromAPI(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// scratch makes an empty volume that can be written to, within the budget of all containers.
func (s *sources) scratch(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (*shell.Volume, error) {
	limit := int64(0)
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
		limit = v.EmptyDir.SizeLimit.Value()
	}
	out := s.budget.NewVolume(limit)
	switch {
	case v.PersistentVolumeClaim != nil:
		return out, s.claimReady(ctx, pod, v.Name, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return out, s.claimReady(ctx, pod, v.Name, pod.Name+"-"+v.Name)
	}
	return out, nil
}

// discard gives back what the pod's scratch volumes hold.
func (w *worker) discard() {
	volumes := w.current().Spec.Volumes
	for i := range volumes {
		if v := w.mounts[volumes[i].Name]; v != nil && !fromAPI(&volumes[i]) {
			v.Discard()
		}
	}
}

// claimReady checks that a claim exists and is bound; its content is an empty volume of the pod's own.
func (s *sources) claimReady(ctx context.Context, pod *corev1.Pod, volume, name string) error {
	claim, err := s.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		err = fmt.Errorf("error processing PVC %s/%s: failed to fetch PVC from API server: %w", pod.Namespace, name, err)
	case claim.DeletionTimestamp != nil:
		err = fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, errors.New("PVC is being deleted"))
	case claim.Status.Phase != corev1.ClaimBound:
		err = fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, errors.New("PVC is not bound"))
	default:
		return s.volumeWorks(ctx, claim)
	}
	//lint:ignore ST1005 the words of the kubelet's event, which people search for
	return fmt.Errorf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%s]: %w", volume, volume, err)
}

// attachError is a volume that does not reach the node. Not the kubelet but the controller that attaches it says so.
type attachError struct{ error }

// volumeWorks is what goes wrong with the volume of a bound claim: as its attributes say (storage.FailsParameter).
func (s *sources) volumeWorks(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	v, err := s.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || v.Spec.CSI == nil {
		return nil // one that is not ours to fail
	}
	switch v.Spec.CSI.VolumeAttributes[storage.FailsParameter] {
	case "attach":
		return attachError{fmt.Errorf("AttachVolume.Attach failed for volume %q : rpc error: code = Internal desc = the disk cannot be attached (simulated)", v.Name)}
	case "mount":
		return fmt.Errorf("MountVolume.MountDevice failed for volume %q : rpc error: code = Internal desc = mount failed: exit status 32 (simulated)", v.Name)
	}
	return nil
}

func (s *sources) addConfigMap(ctx context.Context, out *shell.Volume, namespace, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	m, err := s.configMap(ctx, namespace, name, isTrue(optional))
	if err != nil || m == nil {
		return err
	}
	data := make(map[string][]byte, len(m.Data)+len(m.BinaryData))
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	for key, value := range m.BinaryData {
		data[key] = value
	}
	return addKeys(out, data, items, isTrue(optional), mode, "configmap")
}

func (s *sources) addSecret(ctx context.Context, out *shell.Volume, namespace, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	m, err := s.secret(ctx, namespace, name, isTrue(optional))
	if err != nil || m == nil {
		return err
	}
	return addKeys(out, m.Data, items, isTrue(optional), mode, "secret")
}

// addKeys writes the chosen keys as files; no items means all of them under their own names.
func addKeys(out *shell.Volume, data map[string][]byte, items []corev1.KeyToPath, optional bool, mode *int32, what string) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := out.WriteFile("/"+key, value, fileMode(nil, mode)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case !ok && optional:
			continue
		case !ok:
			return fmt.Errorf("%s references non-existent %s key: %s", what, what, item.Key)
		}
		if err := writeDeep(out, item.Path, value, fileMode(item.Mode, mode)); err != nil {
			return err
		}
	}
	return nil
}

func addDownward(out *shell.Volume, pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for i := range items {
		item := &items[i]
		value, err := "", error(nil)
		switch {
		case item.FieldRef != nil:
			value, err = fieldValue(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = resourceValue(pod, nil, item.ResourceFieldRef)
		}
		if err == nil {
			err = writeDeep(out, item.Path, []byte(value), fileMode(item.Mode, mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addProjected gathers several sources in one volume. Service account tokens are left out: simulated
// programs do not call the API, and a token per pod would cost a request each.
func (s *sources) addProjected(ctx context.Context, out *shell.Volume, pod *corev1.Pod, p *corev1.ProjectedVolumeSource) error {
	for i := range p.Sources {
		var err error
		switch src := &p.Sources[i]; {
		case src.ConfigMap != nil:
			err = s.addConfigMap(ctx, out, pod.Namespace, src.ConfigMap.Name, src.ConfigMap.Items, src.ConfigMap.Optional, p.DefaultMode)
		case src.Secret != nil:
			err = s.addSecret(ctx, out, pod.Namespace, src.Secret.Name, src.Secret.Items, src.Secret.Optional, p.DefaultMode)
		case src.DownwardAPI != nil:
			err = addDownward(out, pod, src.DownwardAPI.Items, p.DefaultMode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeDeep(out *shell.Volume, name string, data []byte, mode fs.FileMode) error {
	if dir := path.Dir("/" + name); dir != "/" {
		if err := out.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return out.WriteFile("/"+name, data, mode)
}

func fileMode(own, dflt *int32) fs.FileMode {
	switch {
	case own != nil:
		return fs.FileMode(*own)
	case dflt != nil:
		return fs.FileMode(*dflt)
	}
	return 0o644
}
