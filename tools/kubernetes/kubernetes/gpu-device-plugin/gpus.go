package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Role gpu writes both: what the plan says of the GPUs, and the faults that a test has set in them.
const (
	described = "/var/lib/rackwright/gpus.json"
	faults    = "/var/lib/rackwright/gpu-faults.json"
)

// look answers which GPUs the node has, in the order of their numbers.
func look() []*api.Device {
	var plan struct {
		UUIDs []string `json:"uuids"`
	}
	var broken struct {
		Missing map[string]any `json:"missing"`
	}
	read(described, &plan)
	read(faults, &broken)
	devices := make([]*api.Device, 0, len(plan.UUIDs))
	for number := range plan.UUIDs {
		id := strconv.Itoa(number)
		health := api.Healthy
		if _, missing := broken.Missing[id]; missing || !isDevice(file(id)) {
			health = api.Unhealthy
		}
		devices = append(devices, &api.Device{ID: id, Health: health})
	}
	return devices
}

// allotment is what a container that was given these GPUs gets.
func allotment(ids []string) *api.ContainerAllocateResponse {
	sort.Slice(ids, func(a, b int) bool {
		first, _ := strconv.Atoi(ids[a])
		second, _ := strconv.Atoi(ids[b])
		return first < second
	})
	answer := &api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(ids, ",")}}
	for _, id := range ids {
		answer.Devices = append(answer.Devices, &api.DeviceSpec{ContainerPath: file(id), HostPath: file(id), Permissions: "rw"})
	}
	return answer
}

func file(id string) string {
	return filepath.Join("/dev", "nvidia"+id)
}

func isDevice(path string) bool {
	status, err := os.Stat(path)
	return err == nil && status.Mode()&os.ModeCharDevice != 0
}

// read leaves the value as it is where the file is missing or unreadable: no file of faults means no faults.
func read(path string, value any) {
	if text, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(text, value)
	}
}
