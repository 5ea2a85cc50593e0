{{/* Made by `make chart` from kube/device_keys.py. */}}

{{/* CEL: whether k is an annotation that no pod may have. */}}
{{- define "fraction-injector.celGivesDevices" -}}
(k.split('/')[0] in ['cdi.k8s.io', 'nvidia.cdi.k8s.io', 'cdi.nri.io', 'devices.nri.io', 'cdi-devices.nri.io', 'devices.noderesource.dev', 'cdi-devices.noderesource.dev'])
{{- end -}}

{{/* CEL: the same of a labelled pod. */}}
{{- define "fraction-injector.celGivesLabelledDevices" -}}
(k.split('/')[0] in ['cdi.k8s.io', 'nvidia.cdi.k8s.io', 'cdi.nri.io', 'devices.nri.io', 'cdi-devices.nri.io', 'devices.noderesource.dev', 'cdi-devices.noderesource.dev', 'mounts.nri.io', 'mounts.noderesource.dev', 'devices.gke.io', 'devices.crio.io', 'io.kubernetes.cri-o.Devices'] || k.startsWith('nvidia.com/container.') || k.startsWith('gpu-fractioning.'))
{{- end -}}

{{/* CEL: whether no container may have the variable e. */}}
{{- define "fraction-injector.celRemoved" -}}
(e.name.split('/')[0] in ['NVIDIA_IMEX_CHANNELS', 'NVIDIA_NVSWITCH', 'NVIDIA_GDS', 'NVIDIA_GDRCOPY', 'NVIDIA_MOFED', 'DOCKER_RESOURCE_GPU'] || e.name.startsWith('NVIDIA_GPU_MEMORY_') || e.name.startsWith('CUDA_MPS_') || e.name.startsWith('NVIDIA_MIG_'))
{{- end -}}

{{/* CEL: whether the mount m selects devices. */}}
{{- define "fraction-injector.celSelectsDevices" -}}
m.mountPath.matches('^/?(var/)?run/nvidia-container-devices')
{{- end -}}
