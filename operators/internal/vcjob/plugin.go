package vcjob

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the plugins svc and ssh put their files (Volcano v1.15, pkg/controllers/job/plugins/svc/const.go and ssh/const.go).
const (
	hostsFolder = "/etc/volcano"
	keysFolder  = "/root/.ssh"
	keysPath    = ".ssh"
)

// KeyFiles are the files of the plugin ssh, in the order of a private key, its public key, the keys that may log in, and the client's
// configuration.
var KeyFiles = []string{"id_rsa", "id_rsa.pub", "authorized_keys", "config"}

// hostFiles is a file for each task with the names of its pods, where the plugin svc is asked for.
func (x *expansion) hostFiles() *corev1.ConfigMap {
	if _, ok := x.plugin("svc"); !ok {
		return nil
	}
	out := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x.job.Namespace, Name: x.job.Name + "-svc", OwnerReferences: x.owner()}, Data: make(map[string]string)}
	for i := range x.job.Spec.Tasks {
		t := &x.job.Spec.Tasks[i]
		out.Data[t.Name+".host"] = strings.Join(x.hosts(t), "\n")
	}
	return out
}

// keys is the Secret by which pods log in to each other, where the plugin ssh is asked for: without the keys, with the client's
// configuration.
func (x *expansion) keys() *corev1.Secret {
	if _, ok := x.plugin("ssh"); !ok {
		return nil
	}
	var config strings.Builder
	config.WriteString("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
	for i := range x.job.Spec.Tasks {
		for _, host := range x.hosts(&x.job.Spec.Tasks[i]) {
			name, _, _ := strings.Cut(host, ".")
			config.WriteString("Host " + name + "\n  HostName " + host + "\n")
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.job.Namespace, Name: x.job.Name + "-ssh", OwnerReferences: x.owner()},
		Data:       map[string][]byte{KeyFiles[3]: []byte(config.String())},
	}
}

// mount gives all containers the files of the plugins.
func (x *expansion) mount(s *corev1.PodSpec) {
	var mounts []corev1.VolumeMount
	if _, ok := x.plugin("svc"); ok {
		name := x.job.Name + "-svc"
		s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: hostsFolder})
	}
	if args, ok := x.plugin("ssh"); ok {
		name := x.job.Name + "-ssh"
		folder := argument(args, "ssh-key-file-path", keysFolder)
		mode := int32(0o600)
		if folder != keysFolder {
			mode = 0o644
		}
		var items []corev1.KeyToPath
		for _, file := range KeyFiles {
			items = append(items, corev1.KeyToPath{Key: file, Path: keysPath + "/" + file})
		}
		s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, DefaultMode: &mode}}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: folder, SubPath: keysPath})
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, mounts...)
		}
	}
}
