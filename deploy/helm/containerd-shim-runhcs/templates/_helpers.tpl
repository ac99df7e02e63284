{{- define "runhcs.name" -}}
{{- if contains "containerd-shim-runhcs" .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}{{ printf "%s-containerd-shim-runhcs" .Release.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "runhcs.selector" -}}
app.kubernetes.io/name: containerd-shim-runhcs
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "runhcs.labels" -}}
{{ include "runhcs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "runhcs.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag }}{{ end }}
{{- end }}
