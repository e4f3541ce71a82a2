package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment builds a container's variables as the kubelet does: envFrom first, then env in order,
// with $(NAME) replaced by what is known so far; extra is added under both. Service links are not
// made. The error is the one that CreateContainerConfigError shows.
func (s *sources) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container, extra map[string]string) (map[string]string, error) {
	env := maps.Clone(extra)
	if env == nil {
		env = make(map[string]string)
	}
	for i := range c.EnvFrom {
		if err := s.envFrom(ctx, pod.Namespace, &c.EnvFrom[i], env); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.Value != "" || v.ValueFrom == nil {
			env[v.Name] = expand(v.Value, env)
			continue
		}
		value, ok, err := s.envValue(ctx, pod, c, v.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			env[v.Name] = value
		}
	}
	return env, nil
}

// envFrom adds all keys of a ConfigMap or Secret, prefixed.
func (s *sources) envFrom(ctx context.Context, namespace string, from *corev1.EnvFromSource, env map[string]string) error {
	if ref := from.ConfigMapRef; ref != nil {
		m, err := s.configMap(ctx, namespace, ref.Name, isTrue(ref.Optional))
		if err != nil || m == nil {
			return err
		}
		for key, value := range m.Data {
			env[from.Prefix+key] = value
		}
	}
	if ref := from.SecretRef; ref != nil {
		m, err := s.secret(ctx, namespace, ref.Name, isTrue(ref.Optional))
		if err != nil || m == nil {
			return err
		}
		for key, value := range m.Data {
			env[from.Prefix+key] = string(value)
		}
	}
	return nil
}

// envValue resolves one reference; ok is false for an optional one that leads nowhere.
func (s *sources) envValue(ctx context.Context, pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = fieldValue(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = resourceValue(pod, c, from.ResourceFieldRef)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, err := s.configMap(ctx, pod.Namespace, ref.Name, isTrue(ref.Optional))
		if err != nil || m == nil {
			return "", false, err
		}
		value, ok = m.Data[ref.Key]
		if !ok && !isTrue(ref.Optional) {
			err = fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return value, ok, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		m, err := s.secret(ctx, pod.Namespace, ref.Name, isTrue(ref.Optional))
		if err != nil || m == nil {
			return "", false, err
		}
		data, ok := m.Data[ref.Key]
		if !ok && !isTrue(ref.Optional) {
			err = fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return string(data), ok, err
	}
	return "", false, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// environ is the environment in the form processes take, sorted.
func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// expand replaces $(NAME) with the variable's value. $$ is one $, and a name that is not known
// stays as it was written.
func expand(s string, env map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := env[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			s = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			out.WriteString(value)
			s = rest
		case strings.HasPrefix(after, "(") && closed:
			out.WriteString("$(" + name + ")")
			s = rest
		default:
			out.WriteByte('$')
			s = after
		}
	}
}

// expandAll expands every word of a command line.
func expandAll(words []string, env map[string]string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = expand(w, env)
	}
	return out
}
