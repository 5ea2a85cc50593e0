{{/* What is special about the agent's pods; all take (dict "root" $ "component" "agent" "values" VALUES). */}}

{{- define "fraction-injector.agentPod" -}}
restartPolicy: Always
schedulerName: default-scheduler
terminationGracePeriodSeconds: 10
serviceAccountName: {{ include "fraction-injector.fullname" .root }}-agent
# For the GpuNode of its node alone: rbac.yaml.
automountServiceAccountToken: true
dnsPolicy: ClusterFirst
{{- if .values.podMetrics }}
# The driver tells processes by the node's numbers.
hostPID: true
{{- end }}
{{- with include "fraction-injector.priorityClassName" .root }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
# The kubelet's folders are root's.
securityContext:
  runAsUser: 0
  runAsGroup: 0
  seccompProfile: {type: RuntimeDefault}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # Nodes are held by it until their agent serves.
  - {key: clearml-injector.io/agent-not-ready, operator: Exists, effect: NoSchedule}
  {{- with .values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "fraction-injector.unprivileged" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- define "fraction-injector.agentSecurity" -}}
{{- if .values.privileged -}}
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
{{- include "fraction-injector.unprivileged" . }}
{{- end }}
{{- end -}}
