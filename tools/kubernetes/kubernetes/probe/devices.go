package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
)

// devices prints which GPUs and RDMA devices this container was given: what it is told, and what is there.
func devices(arguments []string) error {
	if _, err := exactly(arguments, ""); err != nil {
		return err
	}
	var visible *string
	if value, said := os.LookupEnv("NVIDIA_VISIBLE_DEVICES"); said {
		visible = &value
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"visible": visible,
		"files":   present("/dev/nvidia[0-9]*"),
		"rdma":    present("/dev/infiniband/*"),
	})
}

func present(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	sort.Strings(found)
	return append([]string{}, found...)
}
