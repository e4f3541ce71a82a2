package device

// SetHealthy records what the device plugin would report of a GPU. An unknown uuid changes
// nothing. Whoever holds the device keeps it.
func (m *Manager) SetHealthy(uuid string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, d := range m.cfg.Devices {
		if d.UUID == uuid {
			m.unwell[i] = !ok
		}
	}
}
